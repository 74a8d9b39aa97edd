# SPDX-License-Identifier: Apache-2.0
"""Data formats and tiled tensor layouts of the Spyre accelerator.

Codecs (`encode`, `decode`, `encode_from`, `decode_to`), layouts (`SpyreTensorLayout`), view
resolution (`resolve_view`), copies (`dma_plan`, `to_device`, `from_device`, `restickify`), pictures
(`spyre_layout.picture`) and files (`spyre_layout.checkpoint`).
"""

from spyre_layout._core import version as __version__
from spyre_layout.codec import decode, decode_to, encode, encode_from
from spyre_layout.formats import DataFormats, device_format, dtype_name
from spyre_layout.layout import SpyreTensorLayout
from spyre_layout.transfer import DmaPiece, DmaPlan, dma_plan, from_device, restickify, to_device
from spyre_layout.view import DeviceView, Digit, Run, ViewLoop, contiguous_runs, resolve_view

__all__ = [
    "DataFormats",
    "DeviceView",
    "Digit",
    "DmaPiece",
    "DmaPlan",
    "Run",
    "SpyreTensorLayout",
    "ViewLoop",
    "__version__",
    "cmake_prefix",
    "contiguous_runs",
    "decode",
    "decode_to",
    "device_format",
    "dma_plan",
    "dtype_name",
    "encode",
    "encode_from",
    "from_device",
    "resolve_view",
    "restickify",
    "to_device",
]


def cmake_prefix() -> str:
    """Return the directory to give to CMake as `SpyreLayout_ROOT` or in `CMAKE_PREFIX_PATH`."""
    from spyre_layout import _core

    # The compiled part, the headers and the CMake package are installed together, also by an
    # editable install, whose Python files lie elsewhere.
    return str(_core.__file__).replace("\\", "/").rpartition("/")[0]
