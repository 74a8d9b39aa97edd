# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator samples, forward, against the CPU.

The default run takes two samples of the operators that have native kernels and of every sixth of
the others. `SPYRE_FULL_SWEEP=1` takes all samples of all operators in four dtypes (about half an
hour).
"""

import os
import re
import zlib

import pytest
import torch
from spyre_runtime import _C
from sweep import CPU_ONLY, DTYPES, check_op, name_of, supports
from torch.testing._internal.common_methods_invocations import op_db

FULL = os.environ.get("SPYRE_FULL_SWEEP") == "1"
SAMPLES = 10_000 if FULL else 2


def native_names() -> set[str]:
    """Operators with a kernel of the device, without overload and underscore."""
    return {
        re.split(r"[.:]", name.removeprefix("aten::"))[0].rstrip("_")
        for name, *_ in _C.native_ops()
    }


NATIVE = native_names()


def is_chosen(op) -> bool:
    names = {op.name, op.aten_name, *(alias.name for alias in op.aliases)}
    if any(name and name.split(".")[-1] in NATIVE for name in names):
        return True
    return zlib.crc32(name_of(op).encode()) % 6 == 0


OPS = [op for op in op_db if op.name not in CPU_ONLY and (FULL or is_chosen(op))]


@pytest.mark.parametrize("op", OPS, ids=name_of)
def test_operator_agrees_with_cpu(op) -> None:
    failures = []
    for dtype in DTYPES:
        if supports(op, dtype):
            failures += check_op(op, dtype, SAMPLES)
    torch.spyre.synchronize()
    assert not failures, "\n".join(map(str, failures[:10]))
