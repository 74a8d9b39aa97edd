# SPDX-License-Identifier: Apache-2.0
"""Kernel IR: loop nests with affine or indexed accesses and scalar bodies."""
