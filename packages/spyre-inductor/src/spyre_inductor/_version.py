# SPDX-License-Identifier: Apache-2.0
"""The version of this package, read by hatchling and by the version check."""

__version__ = "0.1.0"
