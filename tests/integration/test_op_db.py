# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operator samples give on the device what they give on the CPU.

Whether an operator runs as a device program or by CPU fallback makes no difference here: the answer
has to be right.
"""

import itertools
import os
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

SAMPLES = int(os.environ.get("SPYRE_TEST_OP_SAMPLES", "2"))

# Operators whose results are random or uninitialised: only the form of the result is compared.
UNDETERMINED = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
    "normal",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "torch.ops.aten._efficient_attention_forward",
    "torch.ops.aten._flash_attention_forward",
    "uniform",
}
# Not Spyre's to answer: sparse tensors, and vectors that are only unique up to sign or order.
LEFT_OUT = {
    "sparse.mm": "sparse tensors are refused on the device",
    "sparse.sampled_addmm": "sparse tensors are refused on the device",
    "to_sparse": "sparse tensors are refused on the device",
    "linalg.eig": "gives complex results, which the device refuses",
    "linalg.eigvals": "gives complex results, which the device refuses",
    "as_strided.partial_views": "its sample reads outside of a moved tensor's storage",
}
# The matrix units take SEN169: ten bits of significand.
TOLERANCE = {torch.float32: 2e-2, torch.float16: 2e-2}


def cases(dtype):
    found = []
    for op in op_db:
        if op.supports_dtype(dtype, "cpu") and not op.name.startswith("jiterator"):  # CUDA alone
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            reason = LEFT_OUT.get(name) or LEFT_OUT.get(op.name)
            marks = [pytest.mark.skip(reason=reason)] if reason else []
            found.append(pytest.param(op, id=name, marks=marks))
    return found


def to_device(value):
    return value.to("spyre") if isinstance(value, torch.Tensor) else value


def as_the_device_sees(value):
    return value.to("spyre").cpu() if isinstance(value, torch.Tensor) else value


def attempt(op, sample):
    """Run a sample; a refusal is a result of its own."""
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            return op(sample.input, *sample.args, **sample.kwargs), None
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
            return None, error


def check(op, dtype):
    samples = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES)
    for sample in samples:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = sample.transform(lambda v: tree_map(as_the_device_sees, v))
            moved = held.transform(lambda v: tree_map(to_device, v))
        kwargs = {key: "spyre" if key == "device" else value for key, value in moved.kwargs.items()}
        moved.kwargs = kwargs
        expected, refused = attempt(op, held)
        actual, error = attempt(op, moved)
        if refused is not None:
            assert error is not None, f"the CPU refuses ({refused}) but the device does not"
            continue
        if error is not None and is_a_clear_refusal(error):
            continue
        assert error is None, f"{type(error).__name__}: {error}"
        compare(op, actual, expected, TOLERANCE[dtype])


def is_a_clear_refusal(error):
    """float64 and complex results have no device format; the error says so and what to do."""
    text = str(error)
    return any(
        name in text for name in ("float64", "complex64", "complex32", "complex128", "double")
    )


def compare(op, actual, expected, tolerance):
    left, left_form = tree_flatten(actual)
    right, right_form = tree_flatten(expected)
    assert str(left_form) == str(right_form)
    for one, other in zip(left, right, strict=True):
        if not isinstance(other, torch.Tensor):
            assert type(one) is type(other)
            continue
        one = one.cpu()
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if op.name in UNDETERMINED:
            continue
        if not other.dtype.is_floating_point:
            assert torch.equal(one, other), f"{one} != {other}"
            continue
        one, other = one.float(), other.float()
        finite = torch.isfinite(other)
        assert torch.equal(torch.isnan(one), torch.isnan(other)), "NaN at other places"
        scale = other[finite].abs().max().item() if finite.any() else 0.0
        torch.testing.assert_close(
            one, other, rtol=tolerance, atol=tolerance * max(scale, 1e-2), equal_nan=True
        )


@pytest.mark.parametrize("op", cases(torch.float32))
def test_float32(op):
    check(op, torch.float32)


@pytest.mark.parametrize("op", cases(torch.float16))
def test_float16(op):
    check(op, torch.float16)
