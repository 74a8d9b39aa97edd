# SPDX-License-Identifier: Apache-2.0
"""Layouts of device tensors, and the downcast warning.

A thin face of :mod:`spyre_layout` and :mod:`spyre_runtime`, under the name that the API page gives.
"""

from spyre_layout import DataFormats, SpyreTensorLayout
from spyre_runtime import (
    get_downcast_warning,
    get_spyre_tensor_layout,
    set_downcast_warning,
    set_spyre_tensor_layout,
)

__all__ = [
    "DataFormats",
    "SpyreTensorLayout",
    "get_downcast_warning",
    "get_spyre_tensor_layout",
    "set_downcast_warning",
    "set_spyre_tensor_layout",
]
