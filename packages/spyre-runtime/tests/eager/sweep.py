# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's OpInfo samples on the device and holds the results against the CPU.

As a script: `python sweep.py [--dtype float16] [--samples 50] [--only REGEX] [--backward]` prints
what differs. test_opinfo.py runs parts of it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import spyre_runtime
import torch
from compare import HALF, as_held, as_reference, mismatch, tree_to_device
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

spyre_runtime.register()

DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)

# Results without defined values: only shape and dtype are held against the CPU.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}

# Numbers from a generator that the reference, computed in another dtype, does not draw alike.
RANDOM_IN_HALF = re.compile(
    r"bernoulli|multinomial|normal|uniform|rand|dropout|exponential|geometric|cauchy|rrelu|"
    r"gumbel|log_normal|scaled_dot_product"
)


@dataclass(frozen=True)
class Tolerance:
    """rtol, and atol relative to the largest magnitude of the result."""

    rtol: float
    atol: float


# Dtypes that the device refuses; results and dtype arguments of these are not asked of it.
REFUSED = {torch.float64, torch.uint16, torch.uint32, torch.uint64}

# Which of equal elements their indices name is not specified.
FREE_AMONG_EQUALS = {"topk"}

# Samples of an operator whose in-place and out variants are run too.
VARIANT_SAMPLES = 4

# Not run: they demand index tensors on the CPU whatever the device.
CPU_ONLY = {"tensor_split"}

FLOAT32 = Tolerance(2e-5, 2e-6)
HALF_TOLERANCE = Tolerance(2.0**-7, 2.0**-8)
# The matrix units round float32 operands to SEN169.
DOWNCAST = Tolerance(2.0**-6, 2.0**-7)

MATRIX_OPS = re.compile(
    r"mm$|mv$|matmul|linear|bilinear|einsum|inner|outer|dot|conv|attention|chain_matmul|multi_dot|"
    r"tensordot|cdist|kron|cov|corrcoef|addr|pca|matrix_power|matrix_exp|linalg|lu|cholesky|svd|"
    r"pinverse|ormqr|householder|lstsq|triangular_solve|ldl|logdet|geqrf|qr|nuc|pdist|lobpcg|rnn|"
    r"cosine_similarity|matrix|vecdot|orthog|tensorsolve|trapezoid"
)


# Differences from a margin of up to ten are rounded to half, and their mean is near zero.
CANCELS_IN_HALF = {"nn.functional.hinge_embedding_loss"}
CASTS_TO_HALF = {"half", "bfloat16", "to"}


def tolerance(op: OpInfo, dtype: torch.dtype) -> Tolerance:
    """How far a result of this op may be from the reference."""
    if "attention" in op.name and dtype in HALF:
        return Tolerance(2.0**-8, 2.0**-8)
    if "attention" in op.name:
        return Tolerance(2.0**-5, 2.0**-5)  # the samples' scores reach hundreds
    if MATRIX_OPS.search(op.name):
        return DOWNCAST
    if dtype in HALF and op.name in CANCELS_IN_HALF:
        return Tolerance(2.0**-7, 10 * 2.0**-8)
    return HALF_TOLERANCE if dtype in HALF or op.name in CASTS_TO_HALF else FLOAT32


@dataclass
class Failure:
    """One sample whose result differs."""

    op: str
    dtype: torch.dtype
    variant: str
    sample: str
    reason: str

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.op} {dtype} {self.variant}: {self.reason} [{self.sample[:160]}]"


def name_of(op: OpInfo) -> str:
    """Name with variant, unique in op_db."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def describe(sample: SampleInput) -> str:
    """One line for a report."""

    def short(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.layout is not torch.strided:
            return str(x.layout)
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}/{list(x.stride())}"
        if isinstance(x, (list, tuple)):
            return type(x)(short(y) for y in x)
        return x

    keywords = {k: short(v) for k, v in sample.kwargs.items()}
    return f"{short(sample.input)} {short(sample.args)} {keywords}"


def samples(op: OpInfo, dtype: torch.dtype, count: int) -> Iterator[SampleInput]:
    """Up to `count` samples, every third of them made non-contiguous."""
    torch.manual_seed(7)
    made = op.sample_inputs("cpu", dtype, requires_grad=False)
    for number, sample in enumerate(itertools.islice(made, count)):
        if has_unsupported((sample.input, sample.args, sample.kwargs)):
            continue
        yield sample.noncontiguous() if number % 3 == 2 else sample


def has_unsupported(tree: Any) -> bool:
    """Whether there is a dtype, or a tensor of a dtype or layout, that the device refuses."""

    def is_refused(x: Any) -> bool:
        if isinstance(x, torch.Tensor):
            return is_refused(x.dtype) or x.layout is not torch.strided
        return isinstance(x, torch.dtype) and (x in REFUSED or x.is_complex)

    return any(map(is_refused, tree_flatten(tree)[0]))


def has_plain_strides(op: OpInfo, half: bool) -> bool:
    """Whether results must have the CPU's strides; LAPACK's and attention's vary."""
    return not half and not re.match(r"linalg|lu|svd|qr|geqrf|ormqr|.*attention", op.name)


def check_sample(op: OpInfo, dtype: torch.dtype, sample: SampleInput) -> tuple[str, str] | None:
    """(variant, reason) of the first difference, or None."""
    half = dtype in HALF
    everything = (sample.input, sample.args, sample.kwargs)
    reference = as_reference(everything) if half else everything
    held = tree_to_device(everything)
    try:
        torch.manual_seed(3)
        expected = op(reference[0], *reference[1], **reference[2])
    except Exception:
        with contextlib.suppress(Exception):
            op(held[0], *held[1], **held[2])
            torch.spyre.synchronize()
        return None
    if has_unsupported(expected):
        return None
    if half and (op.name in UNDEFINED or RANDOM_IN_HALF.search(op.name)):
        return None
    limits = tolerance(op, dtype)
    options = {"rtol": limits.rtol, "atol": limits.atol, "half": half}
    torch.manual_seed(3)
    actual = op(held[0], *held[1], **held[2])
    if op.name in UNDEFINED:
        return None
    if op.name in FREE_AMONG_EQUALS:
        actual = with_found_values(held[0], sample, actual)
        expected = with_found_values(reference[0], sample, expected)
    found = mismatch(actual, expected, strides=has_plain_strides(op, half), **options)
    if found and half and matches_half_of_cpu(op, sample, actual, options):
        return None
    return ("call", found) if found else None


def with_found_values(tensor: torch.Tensor, sample: SampleInput, result: Any) -> Any:
    """Values and the elements at the indices beside them, instead of the indices."""
    values, indices = result
    dim = sample.args[1] if len(sample.args) > 1 else sample.kwargs.get("dim", -1)
    return values, torch.gather(tensor, dim, indices) if tensor.dim() else indices


def check_in_place(op: OpInfo, dtype: torch.dtype, sample: SampleInput) -> str | None:
    """Difference of the in-place variant, or None."""
    run = op.inplace_variant
    if run is None or not isinstance(sample.input, torch.Tensor) or RANDOM_IN_HALF.search(op.name):
        return None
    half = dtype in HALF
    everything = (sample.input, sample.args, sample.kwargs)
    reference = as_reference(everything) if half else everything
    held = tree_to_device(everything)
    target, expected = held[0].clone(), reference[0].clone()
    try:
        run(expected, *reference[1], **reference[2])
        if has_unsupported(expected):
            return None
    except Exception:
        with contextlib.suppress(Exception):
            run(target, *held[1], **held[2])
        return None
    run(target, *held[1], **held[2])
    limits = tolerance(op, dtype)
    return mismatch(target, expected, rtol=limits.rtol, atol=limits.atol, half=half, strides=False)


def check_out(op: OpInfo, dtype: torch.dtype, sample: SampleInput) -> str | None:
    """Difference of the out= variant, into a tensor that is not contiguous, or None."""
    if not op.supports_out or RANDOM_IN_HALF.search(op.name) or op.name in UNDEFINED:
        return None
    half = dtype in HALF
    everything = (sample.input, sample.args, sample.kwargs)
    reference = as_reference(everything) if half else everything
    held = tree_to_device(everything)
    expected = op(reference[0], *reference[1], **reference[2])
    if has_unsupported(expected):
        return None
    plain = op(held[0], *held[1], **held[2])
    if not isinstance(plain, torch.Tensor) or plain.dim() < 2:
        return None
    permutation = tuple(reversed(range(plain.dim())))
    out = plain.new_zeros(list(reversed(plain.shape))).permute(permutation)
    # Contiguous: the CPU's gelu, by way of oneDNN, leaves an out tensor of other strides untouched.
    wanted = expected.new_zeros(plain.shape)
    try:
        op(reference[0], *reference[1], **reference[2], out=wanted)
    except Exception:
        return None
    op(held[0], *held[1], **held[2], out=out)
    limits = tolerance(op, dtype)
    options = {"rtol": limits.rtol, "atol": limits.atol, "half": half, "strides": False}
    # A few CPU kernels take such an out tensor for a contiguous one: the plain result will do too.
    return mismatch(out, wanted, **options) and mismatch(out, expected, **options)


def matches_half_of_cpu(op: OpInfo, sample: SampleInput, actual: Any, options: dict) -> bool:
    """Whether the CPU's own half result is as far from float32's: a fallback, or an unstable op."""
    held = tree_map(
        lambda x: as_held(x) if isinstance(x, torch.Tensor) else x,
        (sample.input, sample.args, sample.kwargs),
    )
    try:
        expected = op(held[0], *held[1], **held[2])
    except Exception:
        return False
    return mismatch(actual, expected, strides=False, **{**options, "half": False}) is None


def matches_truth(op: OpInfo, arguments: Any, actual: Any, options: dict) -> bool:
    """Whether gradients agree with float64's, but for rounding noise of what cancels.

    The CPU's float32 has such noise too, which is no measure of another's. It is relative to the
    arguments: that of float32, and where nothing is left at all, of the operator's tolerance.
    """
    exact = tree_map(
        lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x,
        as_reference(arguments),
    )
    try:
        truth = gradients(op, exact)
    except Exception:
        return False
    sizes = [x.abs().max() for x in tree_flatten(exact)[0] if isinstance(x, torch.Tensor)]
    scale = max((float(x) for x in sizes), default=1.0)
    for a, e in zip(actual or (), truth or (), strict=True):
        if e is None or a is None:
            continue
        found = a.cpu().double()
        noise = torch.where(e.abs() <= 1e-10 * scale, options["atol"], 2.0**-21) * scale
        found = torch.where((found - e).abs() <= noise, e, found)
        if mismatch(found.to(torch.float32), e.to(torch.float32), half=True, **options):
            return False
    return True


def check_variants(op: OpInfo, dtype: torch.dtype, sample: SampleInput) -> tuple[str, str] | None:
    """(variant, reason) of a difference of the in-place or out variant, or None."""
    for variant, check in (("in place", check_in_place), ("out", check_out)):
        found = check(op, dtype, sample)
        if found:
            return variant, found
    return None


def gradients(op: OpInfo, arguments: Any) -> list[torch.Tensor | None] | None:
    """Gradients of every floating argument for fixed weights of the outputs, or None."""
    leaves, tree = tree_flatten(arguments)
    inputs = []
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            leaves[position] = leaf.detach().requires_grad_()
            inputs.append(leaves[position])
    given = tree_unflatten(leaves, tree)
    torch.manual_seed(3)
    outputs, _ = tree_flatten(op(given[0], *given[1], **given[2]))
    outputs = [
        x for x in outputs if isinstance(x, torch.Tensor) and x.requires_grad and not x.is_complex()
    ]
    if not outputs or not inputs:
        return None
    torch.manual_seed(4)
    # Drawn in float32 and exact in SEN169, so that every dtype and device gets the same.
    weights = [
        (torch.randn(x.shape) * 64).round().div(64).to(x.dtype).to(x.device) for x in outputs
    ]
    return list(torch.autograd.grad(outputs, inputs, weights, allow_unused=True))


def check_backward(op: OpInfo, dtype: torch.dtype, sample: SampleInput) -> tuple[str, str] | None:
    """(variant, reason) if a gradient differs, or None."""
    if op.name in UNDEFINED or RANDOM_IN_HALF.search(op.name):
        return None
    half = dtype in HALF
    everything = (sample.input, sample.args, sample.kwargs)
    try:
        expected = gradients(op, as_reference(everything) if half else everything)
    except Exception:
        return None
    if expected is None or has_unsupported(expected):
        return None
    try:
        actual = gradients(op, tree_to_device(everything))
    except NotImplementedError:
        if has_unsupported(op(sample.input, *sample.args, **sample.kwargs)):
            return None
        raise
    limits = tolerance(op, dtype)
    options = {"rtol": limits.rtol * 4, "atol": limits.atol * 4, "strides": False}
    found = mismatch(actual, expected, half=half, **options)
    if found and matches_truth(op, everything, actual, options):
        return None
    return ("backward", found) if found else None


def check_op(op: OpInfo, dtype: torch.dtype, count: int, backward: bool = False) -> list[Failure]:
    """All differences in `count` samples of an op."""
    failures = []
    name = name_of(op)
    for number, sample in enumerate(samples(op, dtype, count)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = (check_backward if backward else check_sample)(op, dtype, sample)
                if found is None and number < VARIANT_SAMPLES and not backward:
                    found = check_variants(op, dtype, sample)
        except Exception as error:
            found = ("call", f"{type(error).__name__}: {str(error)[:300]}")
        if found:
            failures.append(Failure(name, dtype, found[0], describe(sample), found[1]))
    return failures


def supports(op: OpInfo, dtype: torch.dtype) -> bool:
    """Whether the CPU has samples for the op in this dtype."""
    return dtype in op.supported_dtypes("cpu")


def main() -> int:
    """Sweep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dtype", action="append", help="float32, float16, int64, bool; default: all"
    )
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--only", default="", help="regular expression over op names")
    parser.add_argument("--backward", action="store_true", help="gradients instead of results")
    parser.add_argument("--each", type=int, default=1, help="differences to print per op")
    arguments = parser.parse_args()
    dtypes = [getattr(torch, d) for d in arguments.dtype or ()] or DTYPES
    started, bad, ran = time.time(), 0, 0
    for op in op_db:
        if op.name in CPU_ONLY or not re.search(arguments.only, name_of(op)):
            continue
        for dtype in dtypes:
            if not supports(op, dtype):
                continue
            if arguments.backward and not (op.supports_autograd and dtype.is_floating_point):
                continue
            ran += 1
            begun = time.time()
            failures = check_op(op, dtype, arguments.samples, arguments.backward)
            if time.time() - begun > 20:
                print(f"slow: {name_of(op)} {dtype} {time.time() - begun:.0f} s", flush=True)
            bad += bool(failures)
            for failure in failures[: arguments.each]:
                print(f"{failure} ({len(failures)} samples)", flush=True)
    print(f"{bad} of {ran} op and dtype pairs differ, {time.time() - started:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
