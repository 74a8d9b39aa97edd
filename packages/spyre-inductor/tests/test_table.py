# SPDX-License-Identifier: Apache-2.0
"""The compiler's tables name instructions that the device has, with the types they are used at."""

from __future__ import annotations

import pytest
from spyre_inductor.ops import table
from spyre_runtime import op_table

KINDS = "FIB"


def test_instructions_are_the_device_s():
    assert {name for name, _, _ in op_table()} == table.INSTRUCTIONS.keys()


def rows():
    yield from ((op, "F", "F") for op in table.FLOAT_UNARY.values())
    yield from ((op, "F", "FF") for op in table.FLOAT_BINARY.values())
    for floating, integer in table.SAME_UNARY.values():
        yield floating, "F", "F"
        yield integer, "I", "I"
    for ops in table.SAME_BINARY.values():
        yield from ((op, kind, kind * 2) for op, kind in zip(ops, KINDS, strict=True))
    for name in table.COMPARE:
        yield name, "B", "FF"
        yield f"{name}_i", "B", "II"
    yield from ((op, "B", "BB") for op in table.LOGICAL.values())
    for name, ops in table.REDUCTIONS.items():
        for op, kind in zip(ops, KINDS, strict=True):
            yield op, "I" if name.startswith("arg") else kind, kind
    yield from ((op, "F", "F") for op in table.ROUND.values())
    yield from ((op, "I", "F") for op in table.FLOAT_TO_INT.values())
    yield from ((op, "I", "I") for op in table.WRAP.values())


@pytest.mark.parametrize("row", sorted({row for row in rows() if row[0] is not None}), ids=str)
def test_rows_have_the_types_of_the_instruction(row):
    op, result, operands = row
    assert table.INSTRUCTIONS[op] == (result, operands)


def test_what_the_tables_must_know():
    assert {"exp", "erfinv", "sigmoid", "i1e"} <= table.FLOAT_UNARY.keys()
    assert "neg" not in table.FLOAT_UNARY
    assert table.SAME_UNARY["neg"] == ("neg", "neg_i")
    assert table.SAME_UNARY["floor"] == ("floor", None)
    assert table.SAME_BINARY["maximum"] == ("maximum", "maximum_i", "or_b")
    assert table.SAME_BINARY["mod"] == ("fmod", "fmod_i", None)
    assert table.SAME_BINARY["lshift"] == (None, "shl_i", None)
    assert table.SAME_BINARY["xor"] == (None, "xor_i", "xor_b")
