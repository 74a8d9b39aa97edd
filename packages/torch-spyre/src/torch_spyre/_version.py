# SPDX-License-Identifier: Apache-2.0
"""The one place that holds this package's version; hatchling reads it."""

__version__ = "0.1.0"
