# SPDX-License-Identifier: Apache-2.0
"""What an out= tensor may share memory with: the same as on the CPU, with a result of its own.

One rule is the device's own: an out tensor that overlaps itself is refused, also where the CPU
leaves some of the results in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compare import mismatch

nn = torch._C._nn


def zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).long()


def indices(x: torch.Tensor, count: int = 0) -> torch.Tensor:
    return torch.empty(count, dtype=torch.int64, device=x.device)


def eye(x: torch.Tensor, size: int) -> torch.Tensor:
    return torch.eye(size, device=x.device)


def into(module: Any, name: str, *arguments: Any) -> Callable[..., Any]:
    """The operator as a function of its input and its out tensor."""
    return lambda x, out: getattr(module, name)(x, *arguments, out=out)


ONE_TO_ONE = {
    **{
        name: into(torch, name)
        for name in [
            "exp",
            "neg",
            "abs",
            "sigmoid",
            "erfinv",
            "digamma",
            "sqrt",
            "nan_to_num",
            "round",
            "logical_not",
            "tril",
            "triu",
            "logit",
            "sgn",
        ]
    },
    **{name: into(nn, name) for name in ["gelu", "silu", "hardtanh", "softplus", "elu"]},
    "add": lambda x, out: torch.add(x.clone(), x, out=out),
    "pow": lambda x, out: torch.pow(x, 2, out=out),
    "power of a number": lambda x, out: torch.pow(2, x, out=out),
    "where": lambda x, out: torch.where(x > 0, x, x, out=out),
    "xlogy": lambda x, out: torch.xlogy(x, x, out=out),
    "nextafter": lambda x, out: torch.nextafter(x, x, out=out),
    "lt": lambda x, out: torch.lt(x, 1, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
    "cumprod": lambda x, out: torch.cumprod(x, 1, out=out),
    "logcumsumexp": lambda x, out: torch.logcumsumexp(x, 0, out=out),
    "softmax": lambda x, out: torch.softmax(x, 1, out=out),
    "log_softmax": lambda x, out: torch.log_softmax(x, 0, out=out),
    "renorm": lambda x, out: torch.renorm(x, 2, 0, 1.0, out=out),
    "gather": lambda x, out: torch.gather(x, 0, zeros(x), out=out),
    "index_select": lambda x, out: torch.index_select(x, 0, indices(x, 4).zero_(), out=out),
    "take": lambda x, out: torch.take(x, zeros(x), out=out),
    "scatter": lambda x, out: torch.scatter(x, 0, zeros(x), 1.0, out=out),
    "scatter_add": lambda x, out: torch.scatter_add(x, 0, zeros(x), x.clone(), out=out),
    "scatter_add of x": lambda x, out: torch.scatter_add(x * 0, 0, zeros(x), x, out=out),
    "index_add": lambda x, out: torch.index_add(x, 0, indices(x, 1).zero_(), x[:1] * 1, out=out),
    "index_copy": lambda x, out: torch.index_copy(x, 0, indices(x, 1).zero_(), x[:1] * 1, out=out),
    "mm": lambda x, out: torch.mm(x, eye(x, x.shape[1]), out=out),
    "addmm": lambda x, out: torch.addmm(x, eye(x, x.shape[0]), x.clone(), out=out),
    "addmm of x": lambda x, out: torch.addmm(x * 0, x, eye(x, x.shape[1]), out=out),
    "cat": lambda x, out: torch.cat([x], out=out),
    "sort": lambda x, out: torch.sort(x, out=(out, zeros(x))),
    "topk": lambda x, out: torch.topk(x, 4, out=(out, zeros(x))),
}
OF_ROWS = {
    **{
        name: into(torch, name, 0)
        for name in ["sum", "mean", "prod", "amax", "amin", "std", "logsumexp", "nansum", "nanmean"]
    },
    "norm": lambda x, out: torch.linalg.vector_norm(x, dim=0, out=out),
    "max": lambda x, out: torch.max(x, 0, out=(out, indices(x))),
    "aminmax": lambda x, out: torch.aminmax(x, dim=0, out=(out, torch.empty_like(out))),
    "median": lambda x, out: torch.median(x, 0, out=(out, indices(x))),
    "kthvalue": lambda x, out: torch.kthvalue(x, 1, 0, out=(out, indices(x))),
    "mv": lambda x, out: torch.mv(x.T, torch.ones(x.shape[0], device=x.device), out=out),
}


def places(memory: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """(input, out) by the way that they overlap, out being of the input's shape."""
    x = memory[:16].view(4, 4)
    return {
        "the input itself": (x, x),
        "another view of it": (x, memory[:16].view(4, 4)),
        "shifted": (x, memory[3:19].view(4, 4)),
        "transposed": (x, memory[:16].view(4, 4).t()),
        "apart": (x, memory[20:36].view(4, 4)),
    }


def places_of_rows(memory: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The same for an out tensor of a row's shape."""
    x = memory[:16].view(4, 4)
    return {
        "its first row": (x, x[0]),
        "its end": (x, memory[14:18]),
        "apart": (x, memory[20:24]),
    }


def memory() -> torch.Tensor:
    return torch.arange(1.0, 37.0) / 38


CASES = [("one", name) for name in ONE_TO_ONE] + [("rows", name) for name in OF_ROWS]


@pytest.mark.usefixtures("quiet_fallback")
@pytest.mark.filterwarnings("ignore:.*rounds its float32 operands:UserWarning")
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_overlap(kind: str, name: str) -> None:
    run = (ONE_TO_ONE if kind == "one" else OF_ROWS)[name]
    place = places if kind == "one" else places_of_rows
    x, apart = place(memory())["apart"]
    run(x, apart)
    for where in place(memory()):
        source, expected = place(memory())[where]
        try:
            run(source, expected)
            refuses = False
        except RuntimeError:
            refuses = True
        device = memory().to("spyre")
        source, target = place(device)[where]
        if refuses:
            with pytest.raises(RuntimeError, match="(?i)overlap|memory location"):
                run(source, target)
            assert torch.equal(device.cpu(), memory()), where
            continue
        run(source, target)
        found = mismatch(target, apart, rtol=2.0**-6, atol=2.0**-7, strides=False)
        # Some CPU kernels read what they have overwritten; the fallback does as they do.
        same = mismatch(target, expected, rtol=1e-6, atol=0, strides=False)
        assert found is None or same is None, f"{where}: {found}"


@pytest.mark.usefixtures("quiet_fallback")
@pytest.mark.parametrize("name", ["exp", "digamma", "cumsum", "softmax", "tril", "mm", "sort"])
def test_out_that_overlaps_itself_is_refused(name: str) -> None:
    device = memory().to("spyre")
    with pytest.raises(RuntimeError, match="single memory location"):
        ONE_TO_ONE[name](device[:16].view(4, 4), device[20:24].expand(4, 4))
    assert torch.equal(device.cpu(), memory())
