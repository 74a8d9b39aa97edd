# SPDX-License-Identifier: Apache-2.0
"""Lowerings of the device's own, by subject; `lowering.py` puts them before Inductor's."""
