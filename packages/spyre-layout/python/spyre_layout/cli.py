# SPDX-License-Identifier: Apache-2.0
"""The command `spyre-layout`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from spyre_layout import SpyreTensorLayout, __version__, cmake_prefix


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of integers; write them as 0,1,2"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spyre-layout", description="Tiled tensor layouts of the Spyre accelerator."
    )
    parser.add_argument("--version", action="version", version=f"spyre-layout {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    show = commands.add_parser(
        "show",
        help="draw how a tensor lies in sticks",
        description="Draw how a tensor lies in sticks: tiles, padding, addresses.",
    )
    show.add_argument(
        "size", nargs="*", type=int, metavar="SIZE", help="size of the tensor, none for 0-d"
    )
    show.add_argument("--dtype", default="float16", help="its dtype (default: float16)")
    show.add_argument(
        "--dim-order",
        type=_numbers,
        metavar="I,J,..",
        help="generic sticks with this order of dimensions; a trailing -1 for the sparse layout "
        "(write --dim-order=0,1,-1); row-major sticks if left out",
    )
    show.add_argument(
        "--strides", type=_numbers, metavar="I,J,..", help="host strides, if not contiguous"
    )
    show.add_argument(
        "--at", type=_numbers, metavar="I,J,..", help="tell the address of this element"
    )
    show.add_argument(
        "--sticks", type=int, default=16, metavar="N", help="sticks to draw (default: 16)"
    )
    show.add_argument(
        "--svg", type=Path, metavar="FILE", help="write the picture to FILE as SVG too"
    )
    show.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="use colour (default: auto)",
    )
    show.set_defaults(run=_show)

    footprint = commands.add_parser(
        "footprint",
        help="tell what a safetensors file takes on the device",
        description="Tell each tensor's layout, bytes and padding on the device, and totals.",
    )
    footprint.add_argument("file", type=Path, help="a safetensors file")
    footprint.add_argument("--dtype", help="count floating tensors as if cast to this dtype")
    footprint.add_argument("--json", action="store_true", help="print JSON")
    footprint.set_defaults(run=_footprint)

    pack = commands.add_parser(
        "pack",
        help="convert a safetensors file to device format",
        description="Write the tensors of a safetensors file in device format, with their layouts.",
    )
    pack.add_argument("source", type=Path, help="a safetensors file of host tensors")
    pack.add_argument("target", type=Path, help="the file to write")
    pack.add_argument("--dtype", help="cast floating tensors to this dtype first")
    pack.set_defaults(run=_pack)

    cmake = commands.add_parser(
        "cmake",
        help="print the prefix of the CMake package",
        description="Print the prefix of the CMake package: "
        'cmake -D SpyreLayout_ROOT="$(spyre-layout cmake)"',
    )
    cmake.set_defaults(run=_cmake)
    return parser


def _show(arguments: argparse.Namespace) -> None:
    from spyre_layout.picture import to_svg, to_text

    options = {"host_strides": arguments.strides, "dim_order": arguments.dim_order}
    given = {name: value for name, value in options.items() if value is not None}
    layout = SpyreTensorLayout(host_size=arguments.size, dtype=arguments.dtype, **given)
    if arguments.sticks < 2:
        raise ValueError(f"--sticks is {arguments.sticks}; expected at least 2")
    color = arguments.color == "always" or (
        arguments.color == "auto"
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
    _print(
        to_text(
            layout,
            sticks=arguments.sticks,
            at=arguments.at,
            color=color,
            ascii_only=not _can_print("█░"),
            width=_width(),
        )
    )
    if arguments.svg is not None:
        arguments.svg.write_text(to_svg(layout, sticks=arguments.sticks), encoding="utf-8")


def _footprint(arguments: argparse.Namespace) -> None:
    from spyre_layout.checkpoint import footprint

    told = footprint(arguments.file, dtype=arguments.dtype)
    _print(json.dumps(told.to_dict(), indent=2) if arguments.json else told.text(width=_width()))


def _pack(arguments: argparse.Namespace) -> None:
    from spyre_layout.checkpoint import pack_file

    told = pack_file(arguments.source, arguments.target, dtype=arguments.dtype)
    count = len(told.entries)
    _print(
        f"{arguments.target}: {count} tensor{'s' * (count != 1)}, "
        f"{told.device_nbytes:,} device bytes"
    )


def _width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _print(text: str) -> None:
    """Print, escaping what the output's encoding lacks (names of tensors may be anything)."""
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _cmake(arguments: argparse.Namespace) -> None:
    print(cmake_prefix())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, IndexError, ImportError, OSError, MemoryError) as error:
        reason = str(error) or "not enough memory"  # a MemoryError has no text
        print(f"spyre-layout {arguments.command}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
