# SPDX-License-Identifier: Apache-2.0
"""The Spyre device for PyTorch."""
