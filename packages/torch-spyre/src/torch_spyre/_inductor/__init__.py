# SPDX-License-Identifier: Apache-2.0
"""The compiler's settings; the compiler itself is :mod:`spyre_inductor`."""
