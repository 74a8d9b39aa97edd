# SPDX-License-Identifier: Apache-2.0
"""Prints what spyre-layout's conversions cost beside PyTorch CPU's own cast, of one run, as ratios.

The measure is the time that PyTorch takes to convert the same [4096, 4096] float16 tensor to
bfloat16, into an existing tensor. The goals are those of the issue that asked for the library.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from spyre_layout import SpyreTensorLayout, encode_from, from_device, resolve_view, to_device
from timing import best_seconds, readable

SIZE = 4096


def conversions() -> dict[str, tuple[float, Callable[[], object]]]:
    """Return each conversion with its goal, as a multiple of PyTorch's cast."""
    host = torch.randn(SIZE, SIZE, dtype=torch.float16)
    turned = torch.randn(SIZE, SIZE, dtype=torch.float16).T
    back, back_turned = torch.empty_like(host), torch.empty(SIZE, SIZE, dtype=torch.float16).T
    rows = SpyreTensorLayout([SIZE, SIZE], "float16")
    generic = SpyreTensorLayout([SIZE, SIZE], "float16", dim_order=[0, 1])
    device = torch.empty(rows.device_nbytes, dtype=torch.uint8)
    filled_rows = torch.empty_like(device)
    filled_generic = torch.empty_like(device)
    to_device(host, rows, out=filled_rows)
    to_device(host, generic, out=filled_generic)
    return {
        "in, row-major sticks": (1.2, lambda: to_device(host, rows, out=device)),
        "out, row-major sticks": (1.2, lambda: from_device(filled_rows, rows, out=back)),
        "in, generic sticks": (2.0, lambda: to_device(host, generic, out=device)),
        "out, generic sticks": (2.0, lambda: from_device(filled_generic, generic, out=back)),
        "in, row-major, transposed source": (3.0, lambda: to_device(turned, rows, out=device)),
        "out, row-major, transposed target": (
            3.0,
            lambda: from_device(filled_rows, rows, out=back_turned),
        ),
        "in, generic, transposed source": (3.0, lambda: to_device(turned, generic, out=device)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=25, help="turns of each contender")
    arguments = parser.parse_args()

    source = torch.randn(SIZE, SIZE, dtype=torch.float16)
    target = torch.empty(SIZE, SIZE, dtype=torch.bfloat16)
    works = conversions()
    timed = {"torch": lambda: target.copy_(source)}
    timed |= {name: work for name, (_, work) in works.items()}
    seconds = best_seconds(timed, arguments.repeats)
    base = seconds["torch"]
    print(f"float16 <-> SEN169 at [{SIZE}, {SIZE}], {torch.get_num_threads()} threads")
    print(f"{'PyTorch float16 -> bfloat16':36} {readable(base):>9}   ratio   goal")
    for name, (goal, _) in works.items():
        ratio = seconds[name] / base
        print(f"{name:36} {readable(seconds[name]):>9}   {ratio:5.2f}   {goal:4.1f}")

    view = ([32, 12, 64, 32], [24576, 32, 384, 1])
    rows = SpyreTensorLayout([32, 64, 384], "float16")
    generic = SpyreTensorLayout([32, 64, 384], "float16", dim_order=[0, 1, 2])
    small = torch.randn(64, dtype=torch.float16)
    calls = best_seconds(
        {
            "resolve a heads view, row-major": lambda: resolve_view(rows, *view),
            "resolve a heads view, generic": lambda: resolve_view(generic, *view),
            "make a layout": lambda: SpyreTensorLayout([32, 64, 384], "float16"),
            "encode 64 elements": lambda: encode_from(small, "SEN169_FP16"),
        },
        5,
    )
    print("\nfrom Python, a call")
    for name, time in calls.items():
        print(f"{name:36} {readable(time):>9}")


if __name__ == "__main__":
    main()
