# SPDX-License-Identifier: Apache-2.0
"""What the CPU refuses, the device refuses with the same exception, and goes on working."""

import pytest
import torch
import torch.nn.functional as F

ONES = torch.ones(2, 3)
COUNTS = torch.tensor([1, 2], dtype=torch.uint8)
TRUTH = torch.tensor([True, False])

CASES = {
    "difference of truths": lambda d: TRUTH.to(d) - TRUTH.to(d),
    "truth from number": lambda d: COUNTS.to(d) - TRUTH.to(d),
    "number from truth": lambda d: 1 - TRUTH.to(d),
    "true from float": lambda d: ONES.to(d) - True,
    "rsub of true": lambda d: torch.rsub(ONES.to(d), True),
    "truth in place": lambda d: ONES.to(d).sub_(TRUTH[0].to(d)),
    "alpha true": lambda d: torch.add(ONES.to(d), ONES.to(d), alpha=True),
    "alpha fraction": lambda d: torch.add(COUNTS.to(d), COUNTS.to(d), alpha=0.5),
    "alpha overflow": lambda d: torch.sub(COUNTS.to(d), COUNTS.to(d), alpha=300),
    "rounding mode": lambda d: torch.div(ONES.to(d), 2, rounding_mode="up"),
    "gelu": lambda d: F.gelu(ONES.to(d), approximate="some"),
    "softshrink": lambda d: F.softshrink(ONES.to(d), -0.5),
    "lerp of dtypes": lambda d: torch.lerp(ONES.to(d), torch.tensor(1), 0.5),
    "heaviside of dtypes": lambda d: torch.heaviside(ONES.to(d), torch.tensor(1)),
    "where into another dtype": lambda d: torch.where(
        TRUTH.to(d), COUNTS.to(d), COUNTS.to(d), out=torch.empty(2, device=d)
    ),
    "isposinf into numbers": lambda d: torch.isposinf(ONES.to(d), out=torch.empty(2, 3, device=d)),
    "neg into another dtype": lambda d: torch.neg(
        ONES.half().to(d), out=torch.empty(2, 3, device=d)
    ),
    "nan_to_num into another dtype": lambda d: torch.nan_to_num(
        ONES.half().to(d), out=torch.empty(2, 3, device=d)
    ),
    "index_copy at int32": lambda d: ONES.to(d).index_copy(
        0, torch.tensor([1], dtype=torch.int32, device=d), ONES[:1].to(d)
    ),
    "channels last of rank 3": lambda d: ONES[None].to(d).clone(memory_format=torch.channels_last),
    "channels last of rank 5": lambda d: torch.empty(
        1, 1, 1, 2, 3, device=d, memory_format=torch.channels_last
    ),
    "largest of truths": lambda d: torch.topk(TRUTH.to(d), 1),
    "truths among truths": lambda d: torch.isin(TRUTH.to(d), TRUTH.to(d)),
    "logsumexp over no dimension": lambda d: torch.logsumexp(ONES.to(d), dim=()),
    "truth as exponent": lambda d: torch.ldexp(ONES[0, :2].to(d), TRUTH.to(d)),
    "outer product in place of a number": lambda d: torch.tensor(1.0, device=d).addr_(
        ONES[0].to(d), ONES[0].to(d)
    ),
    "outer product beside three dimensions": lambda d: torch.addr(
        ONES[None].to(d), ONES[:, 0].to(d), ONES[0].to(d)
    ),
    "fraction of an outer product of integers": lambda d: torch.addr(
        COUNTS.to(d), COUNTS.to(d), COUNTS.to(d), alpha=0.5
    ),
    "matrix as weight of a group norm": lambda d: F.group_norm(
        torch.ones(2, 3, 4, device=d), 3, ONES[:1].to(d)
    ),
    "negative fraction as uint8": lambda d: torch.full((2,), -3.5, dtype=torch.uint8, device=d),
    "softshrink by infinity": lambda d: F.softshrink(ONES.to(d), float("inf")),
    "softshrink of halves beyond them": lambda d: F.softshrink(ONES.half().to(d), 7e4),
    "elu in place": lambda d: F.elu_(ONES.to(d).requires_grad_().clone(), -1.0).sum().backward(),
    "leaky_relu in place": lambda d: (
        F.leaky_relu_(ONES.to(d).requires_grad_().clone(), -1.0).sum().backward()
    ),
}


# What the CPU's kernels read beyond, or refuse in words of their own.
NORMS = {
    "matrix of means": lambda x: F.batch_norm(x, x[:1], x[0]),
    "few means": lambda x: torch.native_batch_norm(
        x, None, None, x[0, :2], x[0, :2], False, 0.1, 1e-5
    ),
    "few weights": lambda x: torch.native_batch_norm(
        x, x[0, :2], None, x[0], x[0], False, 0.1, 1e-5
    ),
    "larger groups than the input": lambda x: torch.native_group_norm(
        x, None, None, 4, 3, 9, 1, 1e-5
    ),
    "negative batch": lambda x: torch.native_group_norm(x, None, None, -1, 3, 1, 1, 1e-5),
    "no groups": lambda x: torch.native_group_norm(x, None, None, 2, 3, 1, 0, 1e-5),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_other_sizes_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="for 3 channels|for batch|multiple"):
        NORMS[name](ONES.to("spyre"))


@pytest.mark.parametrize("name", CASES)
def test_refused_like_on_the_cpu(name: str) -> None:
    with pytest.raises(Exception) as expected:
        CASES[name]("cpu")
    with pytest.raises(type(expected.value)) as found:
        CASES[name]("spyre")
    words = str(expected.value).split(",")[0]
    assert str(found.value).startswith(words[:30])
    assert (torch.ones(2, device="spyre") + 1).tolist() == [2, 2]
