# SPDX-License-Identifier: Apache-2.0
"""Names that are fixed for the life of the project."""

from typing import Final

DEVICE_NAME: Final = "spyre"
"""The device name string used to register Spyre with PyTorch."""
