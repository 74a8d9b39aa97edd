# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's compiler asks of the device."""
