# SPDX-License-Identifier: Apache-2.0
"""The device interface that Dynamo and Inductor use; a thin face of :mod:`spyre_runtime`.

Importing this module imports ``torch._dynamo``.
"""

from spyre_runtime import SpyreDeviceProperties
from spyre_runtime.interface import SpyreInterface

__all__ = ["SpyreDeviceProperties", "SpyreInterface"]
