# SPDX-License-Identifier: Apache-2.0
"""Makes the helpers beside the tests importable, and keeps every test on one seed."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
