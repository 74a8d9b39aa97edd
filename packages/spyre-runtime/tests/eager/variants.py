# SPDX-License-Identifier: Apache-2.0
"""Runs the forms of PyTorch's operators that OpInfo samples leave out, and holds them to the CPU.

`in place`: on a view with an offset, steps or reversed dimensions; what lies around it stays as it
was. `out`: into such a view, an empty tensor, one of another size or of another dtype. `errors`:
OpInfo's bad input raises what it raises on the CPU.

As a script: `python variants.py errors|inplace|out [--dtype uint8] [--samples 6] [--only REGEX]
[--part 0/4]` prints what differs. test_variants.py runs parts of it.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from compare import HALF, as_held, as_reference, mismatch, tree_to_device
from sweep import (
    CPU_ONLY,
    FREE_AMONG_EQUALS,
    RANDOM_IN_HALF,
    UNDEFINED,
    Failure,
    describe,
    has_plain_strides,
    has_unsupported,
    name_of,
    samples,
    supports,
    tolerance,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_map

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)

# The device refuses a dtype of the result or of something between, by name.
NO_FORMAT = "has no format on device spyre"

# An index is read on the device, after the call: always an IndexError there.
LATE = (RuntimeError, IndexError)

# The CPU's batch norm reads a new out tensor before it writes it; narrow_copy names no dimension.
FAULTY_ON_CPU = {"native_batch_norm", "_native_batch_norm_legit", "narrow_copy"}

OFFSET = 3
PATTERN = 7


@dataclass
class Spread:
    """A tensor's place in a larger, one-dimensional one."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, shape: torch.Size, *, reverse: bool) -> Spread:
        """With a step of two, or with the dimensions in reverse order."""
        strides, next_stride = [], 1 if reverse else 2
        for size in shape if reverse else reversed(shape):
            strides.append(next_stride)
            next_stride *= max(size, 1)
        return cls(tuple(shape), tuple(strides if reverse else reversed(strides)))

    def base(self, dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with room for it, filled with a pattern."""
        size = 2 * math.prod(self.shape) + 2 * OFFSET + 1
        return (torch.arange(size) % PATTERN).to(dtype)

    def view(self, base: torch.Tensor) -> torch.Tensor:
        """The place in the base."""
        return base.as_strided(self.shape, self.strides, OFFSET)

    def around(self, base: torch.Tensor) -> torch.Tensor:
        """What is not in the place."""
        outside = torch.ones(base.shape, dtype=torch.bool)
        self.view(outside).fill_(False)
        return base.detach().cpu()[outside]


@dataclass
class Outcome:
    """What a call returned or raised."""

    value: Any = None
    error: Exception | None = None

    @classmethod
    def of(cls, run: Callable[[], Any]) -> Outcome:
        """Call, and wait for errors that the device reports late."""
        try:
            value = run()
            torch.spyre.synchronize()
        except Exception as error:
            return cls(error=error)
        return cls(value)


def difference_of_errors(found: Outcome, expected: Outcome) -> str | None:
    """Why a call should (not) have raised, or None."""
    if expected.error is None:
        return None if found.error is None else f"{type(found.error).__name__}: {found.error}"
    lacks_kernel = "not implemented for" in str(expected.error)
    if found.error is None:
        return None if lacks_kernel else f"accepted; the CPU raises {expected.error!r}"
    if isinstance(found.error, type(expected.error)):
        return None
    if isinstance(found.error, IndexError) and isinstance(expected.error, LATE):
        return None
    return f"raises {found.error!r}, the CPU {expected.error!r}"


def has_no_format(outcome: Outcome) -> bool:
    """Whether the device has no format for a dtype in the call."""
    return outcome.error is not None and NO_FORMAT in str(outcome.error)


def arguments_of(sample: SampleInput, dtype: torch.dtype) -> tuple[Any, Any]:
    """(arguments on the device, their reference on the CPU)."""
    everything = (sample.input, sample.args, sample.kwargs)
    return tree_to_device(everything), as_reference(everything) if dtype in HALF else everything


def check_in_place(
    op: OpInfo, dtype: torch.dtype, sample: SampleInput, *, reverse: bool
) -> str | None:
    """Difference of the in-place form on a view of a larger tensor, or None."""
    run = op.inplace_variant
    if run is None or not isinstance(sample.input, torch.Tensor):
        return None
    if RANDOM_IN_HALF.search(op.name) or sample.input.dtype != dtype:
        return None
    half = dtype in HALF
    held, reference = arguments_of(sample, dtype)
    place = Spread.of(sample.input.shape, reverse=reverse)
    base = place.base(dtype)
    place.view(base).copy_(as_held(sample.input.detach()))
    there, here = base.to("spyre"), base.float() if half else base.clone()
    target, expected = place.view(there), place.view(here)
    want = Outcome.of(lambda: run(expected, *reference[1], **reference[2]))
    got = Outcome.of(lambda: run(target, *held[1], **held[2]))
    if want.error is not None or got.error is not None:
        return None if has_no_format(got) else difference_of_errors(got, want)
    limits = tolerance(op, dtype)
    options = {"rtol": limits.rtol, "atol": limits.atol, "strides": False}
    found = mismatch(target, expected, half=half, **options)
    if found and half:
        host = base.clone()
        raw = tree_map(
            lambda x: as_held(x) if isinstance(x, torch.Tensor) else x, (sample.args, sample.kwargs)
        )
        alike = Outcome.of(lambda: run(place.view(host), *raw[0], **raw[1]))
        if alike.error is None and mismatch(target, place.view(host), **options) is None:
            found = None
    keeps_place = target.shape == torch.Size(place.shape)
    if not found and keeps_place and not torch.equal(place.around(there), place.around(base)):
        return "elements around the view have changed"
    return found


def outs(kind: str, like: torch.Tensor, device: str) -> tuple[torch.Tensor, Spread | None]:
    """An out tensor for a result like `like`, and its place if it is a view."""
    if kind == "view":
        place = Spread.of(like.shape, reverse=False)
        return place.view(place.base(like.dtype).to(device)), place
    if kind == "empty":
        return torch.empty(0, dtype=like.dtype, device=device), None
    if kind == "larger":
        return torch.zeros(*like.shape, 2, dtype=like.dtype, device=device), None
    other = torch.int64 if like.is_floating_point() else torch.float32
    return torch.zeros(like.shape, dtype=other, device=device), None


def check_out(op: OpInfo, dtype: torch.dtype, sample: SampleInput, *, kind: str) -> str | None:
    """Difference of the out form, or None."""
    if not op.supports_out or RANDOM_IN_HALF.search(op.name) or op.name in UNDEFINED:
        return None
    if op.name in FAULTY_ON_CPU:
        return None
    if dtype in HALF and kind != "view":
        return None  # the CPU's own rules for half, which the float32 reference does not have
    held, reference = arguments_of(sample, dtype)
    if "device" in held[2]:
        held = (held[0], held[1], {**held[2], "device": "spyre"})
    expected = Outcome.of(lambda: op(reference[0], *reference[1], **reference[2]))
    plain = Outcome.of(lambda: op(held[0], *held[1], **held[2]))
    if expected.error is not None or plain.error is not None or has_unsupported(expected.value):
        return None
    single = isinstance(expected.value, torch.Tensor)
    wanted = [expected.value] if single else expected.value
    if isinstance(wanted, bool) or not all(isinstance(x, torch.Tensor) for x in wanted):
        return None
    given = [plain.value] if single else plain.value
    here = [outs(kind, x, "cpu") for x in wanted]
    there = [outs(kind, x, "spyre") for x in given]

    def call(arguments: Any, targets: list) -> Outcome:
        out = targets[0][0] if single else tuple(target for target, _ in targets)
        return Outcome.of(lambda: op(arguments[0], *arguments[1], **arguments[2], out=out))

    want, got = call(reference, here), call(held, there)
    if want.error is not None or got.error is not None:
        return None if has_no_format(got) else difference_of_errors(got, want)
    limits = tolerance(op, dtype)
    options = {"rtol": limits.rtol, "atol": limits.atol, "half": dtype in HALF}
    targets = [target for target, _ in there]
    plain_strides = kind != "dtype" and has_plain_strides(op, dtype in HALF)
    found = mismatch(targets, [target for target, _ in here], strides=plain_strides, **options)
    if found and (kind == "view" or op.name in FREE_AMONG_EQUALS):
        # Some CPU kernels take an out tensor for a contiguous one, and name another of equal
        # elements: the plain results, which the sweep checks, will do too.
        found = mismatch(targets, [x.cpu() for x in given], strides=False, rtol=0, atol=0) and found
    for (target, place), (host, _) in zip(there, here, strict=True):
        # An out tensor of too few dimensions is resized: then the CPU writes elsewhere too.
        if found is None and place is not None and host.stride() == place.strides:
            base = target.as_strided(
                (target.untyped_storage().nbytes() // target.itemsize,), (1,), 0
            )
            if not torch.equal(place.around(base), place.around(place.base(target.dtype))):
                found = "elements around the out view have changed"
    return found


def moved(tree: Any) -> Any:
    """Arguments on the device; what is one tensor, or shares memory, does so there."""
    storages: dict[int, torch.Tensor] = {}
    tensors: dict[int, torch.Tensor] = {}

    def move(x: Any) -> Any:
        if isinstance(x, torch.device) or x == "cpu":
            return torch.device("spyre")
        if not isinstance(x, torch.Tensor) or not x.is_cpu:
            return x
        storage = x.untyped_storage()
        flat = storages.get(storage._cdata)
        if flat is None or flat.dtype != x.dtype:
            count = storage.nbytes() // x.element_size()
            flat = x.detach().as_strided((count,), (1,), 0).to("spyre")
            storages[storage._cdata] = flat
        view = flat.as_strided(x.size(), x.stride(), x.storage_offset())
        return tensors.setdefault(id(x), view)

    return tree_map(move, tree)


def check_errors(op: OpInfo) -> Iterator[tuple[str, str]]:
    """(sample, reason) where bad input is not refused as on the CPU."""
    if op.error_inputs_func is None or op.name in FAULTY_ON_CPU:
        return
    torch.manual_seed(5)
    for bad in op.error_inputs("cpu"):
        sample = bad.sample_input
        here = (sample.input, sample.args, sample.kwargs)
        if has_unsupported(here):
            continue
        there = moved(here)
        want = Outcome.of(lambda: op(here[0], *here[1], **here[2]))  # noqa: B023
        got = Outcome.of(lambda: op(there[0], *there[1], **there[2]))  # noqa: B023
        if want.error is None or has_no_format(got):
            continue
        found = difference_of_errors(got, want)
        if found:
            yield describe(sample), found


CHECKS: dict[str, dict[str, Callable[[OpInfo, torch.dtype, SampleInput], str | None]]] = {
    "inplace": {
        "in place with steps": lambda *a: check_in_place(*a, reverse=False),
        "in place, reversed": lambda *a: check_in_place(*a, reverse=True),
    },
    "out": {
        f"out {kind}": lambda *a, kind=kind: check_out(*a, kind=kind)
        for kind in ("view", "empty", "larger", "dtype")
    },
}


def check_op(op: OpInfo, mode: str, dtypes: tuple[torch.dtype, ...], count: int) -> list[Failure]:
    """All differences of an op in a mode: errors, inplace or out."""
    failures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if mode == "errors":
            for sample, found in check_errors(op):
                failures.append(Failure(name_of(op), torch.float32, mode, sample, found))
            return failures
        for dtype in dtypes:
            if not supports(op, dtype):
                continue
            for sample in samples(op, dtype, count):
                for variant, check in CHECKS[mode].items():
                    found = check(op, dtype, sample)
                    if found:
                        failures.append(
                            Failure(name_of(op), dtype, variant, describe(sample), found)
                        )
    return failures


def main() -> int:
    """Sweep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["errors", *CHECKS])
    parser.add_argument("--dtype", action="append", help="default: all that the device has")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--only", default="", help="regular expression over op names")
    parser.add_argument("--part", default="0/1", help="which of how many parts of the operators")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    dtypes = tuple(getattr(torch, d) for d in arguments.dtype or ()) or DTYPES
    started, bad, ran = time.time(), 0, 0
    for number, op in enumerate(op_db):
        if number % parts != part or op.name in CPU_ONLY:
            continue
        if not re.search(arguments.only, name_of(op)):
            continue
        ran += 1
        failures = check_op(op, arguments.mode, dtypes, arguments.samples)
        bad += bool(failures)
        for failure in failures[:3]:
            print(f"{failure} ({len(failures)} samples)", flush=True)
    print(f"{arguments.mode}: {bad} of {ran} operators differ, {time.time() - started:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
