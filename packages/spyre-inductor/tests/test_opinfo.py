# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database, forward, compiled for the device, against eager on the host.

The default run takes a spread sample; `-m full` takes all operators.
"""

from __future__ import annotations

import contextlib
import re
import warnings
import zlib

import pytest
import torch
from helpers import to_device, widen
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.float16)

# what cannot be compared, with the reason
SKIPPED = {
    "empty": "contents are unspecified",
    "empty_like": "contents are unspecified",
    "empty_permuted": "contents are unspecified",
    "empty_strided": "contents are unspecified",
    "new_empty": "contents are unspecified",
    "new_empty_strided": "contents are unspecified",
    "bernoulli": "random",
    "multinomial": "random",
    "normal": "random",
    "rand_like": "random",
    "randn": "random",
    "randn_like": "random",
    "randint": "random",
    "randint_like": "random",
    "uniform": "random",
    "cauchy": "random",
    "exponential": "random",
    "geometric": "random",
    "log_normal": "random",
    "nn.functional.dropout": "random",
    "nn.functional.dropout2d": "random",
    "nn.functional.dropout3d": "random",
    "nn.functional.alpha_dropout": "random",
    "nn.functional.feature_alpha_dropout": "random",
    "nn.functional.rrelu": "random",
    "nn.functional.fractional_max_pool2d": "random",
    "nn.functional.fractional_max_pool3d": "random",
    "nn.functional.scaled_dot_product_attention": "dropout; tested in test_matmul.py",
    "torch.ops.aten._efficient_attention_forward": "a CUDA operator",
    "torch.ops.aten._flash_attention_forward": "a CUDA operator",
    "jiterator_unary": "a CUDA feature",
    "jiterator_binary": "a CUDA feature",
    "jiterator_binary_return_by_ref": "a CUDA feature",
    "jiterator_2inputs_2outputs": "a CUDA feature",
    "jiterator_4inputs_with_extra_args": "a CUDA feature",
    "torch.ops.aten._safe_softmax.default": "tested through attention",
}


NO_FORMAT = re.compile(r"dtype (complex\d+|float64)(, which)? has no format on device spyre")


def cases(every):
    for op in op_db:
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cpu") or op.name in SKIPPED:
                continue
            variant = f".{op.variant_test_name}" if op.variant_test_name else ""
            name = f"{op.name}{variant}-{str(dtype)[6:]}"
            if every or zlib.crc32(name.encode()) % 24 == 0:
                yield pytest.param(op, dtype, id=name)


def samples(op, dtype, count):
    torch.manual_seed(1)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            tensors = [
                t
                for t in pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
                if isinstance(t, torch.Tensor)
            ]
            if all(
                t.layout is torch.strided and t.dtype != torch.float64 and not t.is_complex()
                for t in tensors
            ):
                found.append(sample)
            if len(found) == count:
                break
    return found


def clone(x):
    """A tensor of a storage of its own, with the same strides and offset in it."""
    if not isinstance(x, torch.Tensor):
        return x
    base = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
    return base.clone().as_strided(x.size(), x.stride(), x.storage_offset())


def hold(x):
    """Rounds a half tensor to what the device holds, so that ties are ties on both sides."""
    if isinstance(x, torch.Tensor) and x.dtype is torch.float16:
        base = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        base.copy_(base.to("spyre").cpu())
    return x


def run(op, dtype, count):
    compared = 0
    for sample in samples(op, dtype, count):
        args = pytree.tree_map(hold, (sample.input, sample.args, sample.kwargs))

        def fn(x, a, k):
            return op.op(x, *a, **k)

        ours = to_device(args)
        place = lambda d: torch.device("spyre") if isinstance(d, torch.device) else d  # noqa: E731
        ours = pytree.tree_map(place, ours)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = fn(*pytree.tree_map(clone, args))
            try:
                eager = fn(*pytree.tree_map(clone, ours))
            except Exception as error:
                eager = error  # eager cannot do it either: the compiled one may fail as well
            torch._dynamo.reset()
            try:
                actual = torch.compile(fn, backend="spyre")(*ours)
            except Exception as error:
                # Eager runs operators with helpers in such dtypes on the CPU as a whole; a graph
                # has the helpers as values of its own, and is refused by name.
                if isinstance(eager, Exception) or NO_FORMAT.search(str(error)):
                    continue
                raise

        def others(eager=eager, args=args, fn=fn):
            """What else is right: eager rounds products too, and float32 overflows less."""
            yield from pytree.tree_leaves(eager)
            if dtype is torch.float16:
                with contextlib.suppress(RuntimeError):  # not all operations take float32 here
                    yield from pytree.tree_leaves(fn(*pytree.tree_map(clone, widen(args))))

        a, b = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            if isinstance(y, torch.Tensor) and isinstance(x, torch.Tensor):
                compare_tensors(x, y, dtype, others, op.name)
        compared += 1
    return compared


# the matrix units take half operands, so float32 products have half's relative accuracy
MATRIX = re.compile(
    r"mm|mv|matmul|linear|dot|inner|einsum|linalg|conv|attention|cdist|cov|corr|addr"
)


def compare_tensors(x, y, dtype, others, name):
    assert x.shape == y.shape
    if y.dtype.is_floating_point:
        tolerance = 2e-2 if dtype is torch.float16 else 1e-3
        if MATRIX.search(name) and y.numel():
            tolerance = 4e-3 * max(1.0, float(y.abs().nan_to_num(0, 0, 0).max()))
        got, want = x.cpu().float(), y.float()
        if not torch.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True):
            close = any(
                torch.allclose(got, t.cpu().float(), rtol=tolerance, atol=tolerance, equal_nan=True)
                for t in others()
                if isinstance(t, torch.Tensor) and t.shape == y.shape
            )
            if not close:
                torch.testing.assert_close(
                    got, want, rtol=tolerance, atol=tolerance, equal_nan=True
                )
    else:
        assert torch.equal(x.cpu().to(y.dtype), y)


@pytest.mark.parametrize(("op", "dtype"), cases(every=False))
def test_sample(op, dtype):
    run(op, dtype, 1)


@pytest.mark.full
@pytest.mark.parametrize(("op", "dtype"), cases(every=True))
def test_every_operator(op, dtype):
    run(op, dtype, 3)
