# SPDX-License-Identifier: Apache-2.0
"""From kernel IR to program text, and from Inductor's scheduler to launches."""
