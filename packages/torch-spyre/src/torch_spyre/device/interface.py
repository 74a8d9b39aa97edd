# SPDX-License-Identifier: Apache-2.0
"""The device interface that Dynamo and Inductor use; a thin face of :mod:`spyre_inductor`.

Importing this module imports ``torch._dynamo``.
"""

from spyre_inductor.device_interface import SpyreDeviceProperties, SpyreInterface

__all__ = ["SpyreDeviceProperties", "SpyreInterface"]
