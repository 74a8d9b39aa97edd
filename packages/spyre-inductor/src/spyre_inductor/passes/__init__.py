# SPDX-License-Identifier: Apache-2.0
"""Passes over the kernel IR, one a file, in the order of `pipeline.py`."""
