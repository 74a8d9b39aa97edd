# SPDX-License-Identifier: Apache-2.0
"""How Inductor's scalar operations map to the device's."""
