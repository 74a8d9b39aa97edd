# SPDX-License-Identifier: Apache-2.0
"""Bad input, in-place and out forms of the operators with native kernels, against the CPU.

`SPYRE_FULL_SWEEP=1` takes all operators, dtypes and more samples; variants.py as a script prints
what differs.
"""

import pytest
import torch
from sweep import name_of
from test_opinfo import FULL, OPS
from variants import DTYPES, check_op

SAMPLES = 6 if FULL else 1
SOME_DTYPES = DTYPES if FULL else (torch.float16, torch.uint8)


@pytest.mark.parametrize("op", OPS, ids=name_of)
@pytest.mark.parametrize("mode", ["errors", "inplace", "out"])
def test_operator_agrees_with_cpu(op, mode: str) -> None:
    failures = check_op(op, mode, SOME_DTYPES, SAMPLES)
    torch.spyre.synchronize()
    assert not failures, "\n".join(map(str, failures[:10]))
