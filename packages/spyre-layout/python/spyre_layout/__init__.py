# SPDX-License-Identifier: Apache-2.0
"""Data formats and tiled layouts of the Spyre accelerator."""

from spyre_layout._core import DataFormats, __version__

__all__ = ["DataFormats", "__version__"]
