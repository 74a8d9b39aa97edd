# SPDX-License-Identifier: Apache-2.0
"""The text form: round trips of the golden programs, and what is wrong with malformed ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from programs import run, stage
from spyre_runtime import Program

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.spy")), ids=lambda p: p.stem)
def test_golden_text_round_trips(path: Path) -> None:
    text = path.read_text()
    assert Program(text).text == text


def test_softmax_with_a_symbol() -> None:
    text = (GOLDEN / "softmax.spy").read_text()
    program = Program(text)
    for rows in (1, 5, 70):
        x = torch.randn(rows, 384).half().to("spyre")
        out = torch.empty_like(x)
        program.launch([x, out], [rows])
        want = torch.softmax(x.cpu().float(), -1)
        torch.testing.assert_close(out.cpu().float(), want, rtol=4e-3, atol=1e-6)


HEAD = """spyre.program 1
name "bad"
buffer b0 arg float32 size [4] stride [1]
stage "s"
  loop 4
  access a0 b0 stride [1] offset 0
"""
MALFORMED = {
    "": "it is empty",
    "spyre.program 9\n": "program version 9, expected 1",
    HEAD + "  phase\n    %0 = lode a0\n": "line 8: unknown op 'lode'",
    HEAD + "  phase\n    %0 = load a7\n": "unknown access 'a7'",
    HEAD + "  phase\n    %0 = load a0\n    %0 = load a0\n": "register %0 is defined twice",
    HEAD + "  phase\n    store a0 %3\n": "register %3 is not defined",
    HEAD + "  phase\n    %0 = load a0\n    %1 = neg_i %0\n": "has type F, expected I",
    HEAD
    + "  phase\n    %0 = load a0\n    %1 = reduce_sum %0\n": "reduce_sum outside a reduce phase",
    HEAD + "  phase\n    %0 = load a0\n    store a0 %0 %0\n": "did not expect",
    HEAD
    + "  access a1 b0 stride [1, 1] offset 0\n": "has 1 loops but an access to b0 has 2 strides",
    HEAD + "  access a1 b0 stride [s9] offset 0\n": "unknown symbol 's9'",
    HEAD
    + "  access a1 b0 stride ["
    + "(" * 500
    + "1"
    + ")" * 500
    + "] offset 0\n": "nested more than",
}


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_text_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError) as error:
        Program(text)
    assert MALFORMED[text] in str(error.value)


def test_an_access_outside_its_buffer_is_refused() -> None:
    x, out = torch.zeros(100, device="spyre"), torch.zeros(100, device="spyre")
    text = stage([x, out], [100], [(0, [1], 1), (1, [1], 0)], "phase\n%0 = load a0\nstore a1 %0")
    with pytest.raises(ValueError, match="access 0 to b0"):
        run(text, [x, out])


def test_too_much_lx_is_refused() -> None:
    n = 1 << 22
    text = f"""spyre.program 1
name "lx"
buffer b0 arg float32 size [{n}] stride [1]
buffer b1 lx float32 size [{n}] stride [1]
stage "s"
  loop {n}
  access a0 b0 stride [1] offset 0
  access a1 b1 stride [1] offset 0
  phase
    %0 = load a0
    store a1 %0
"""
    with pytest.raises(
        ValueError, match="LX buffers need 16777216 bytes of each core's scratchpad"
    ):
        run(text, [torch.zeros(n, device="spyre")])


def test_lx_for_more_cores_is_refused() -> None:
    text = """spyre.program 1
name "lx"
buffer b0 arg float32 size [64] stride [1]
buffer b1 lx float32 size [64] stride [1]
stage "s"
  loop 64 parts 40
  access a0 b0 stride [1] offset 0
  access a1 b1 stride [1] offset 0
  phase
    %0 = load a0
    store a1 %0
"""
    with pytest.raises(ValueError, match="in 40 parts, but the device has 32 cores; .*SENCORES=32"):
        run(text, [torch.zeros(64, device="spyre")])


def lx_copy(first: str, second: str, step: int = 16) -> str:
    """Two stages over [8, 16] through a scratchpad buffer, divided as the loops say."""
    loops = [f"  loop 8 parts {first}\n  loop 16\n", f"  loop 8\n  loop 16 parts {second}\n"]
    if second == "rows":
        loops[1] = loops[0]
    return f"""spyre.program 1
name "lx"
buffer b0 arg float32 size [8, 16] stride [16, 1]
buffer b1 lx float32 size [8, 16] stride [16, 1]
buffer b2 arg float32 size [8, 16] stride [16, 1]
stage "one"
{loops[0]}  access a0 b0 stride [16, 1] offset 0
  access a1 b1 stride [{step}, 1] offset 0
  phase
    %0 = load a0
    store a1 %0
stage "two"
{loops[1]}  access a0 b1 stride [{step}, 1] offset 0
  access a1 b2 stride [16, 1] offset 0
  phase
    %0 = load a0
    store a1 %0
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (lx_copy("4", "4"), "is divided in 4 parts by one stage and otherwise by stage"),
        (lx_copy("4", "rows", step=0), "divides a loop that does not move in it"),
    ],
)
def test_scratchpads_are_private_to_a_core(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        run(text, [torch.zeros(8, 16, device="spyre") for _ in range(2)])


def test_a_scratchpad_holds_what_its_core_made() -> None:
    x, out = torch.arange(128.0).view(8, 16).to("spyre"), torch.zeros(8, 16, device="spyre")
    run(lx_copy("4", "rows"), [x, out])
    assert torch.equal(out.cpu(), x.cpu())
