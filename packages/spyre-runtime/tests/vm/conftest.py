# SPDX-License-Identifier: Apache-2.0
"""Puts this folder's helper module on the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
