# SPDX-License-Identifier: Apache-2.0
"""Arguments on which a kernel could end the process, PyTorch's own for the CPU among them.

All cases of a list share one process, and each is told apart by its output; so a test here fails
where the process dies.
"""

import pytest

SETUP = """
    import torch.nn.functional as F
    def on(*size):
        return torch.ones(*size, device="spyre")
    def full(size, value, dtype=torch.int64):
        return torch.full(size, value, dtype=dtype).to("spyre")
    image = on(2, 4, 6, 6)
    pooled = on(2, 4, 3, 3)
    volume = on(2, 4, 6, 6, 6)
    logits = torch.zeros(50, 3, 20).log_softmax(2).to("spyre")
    least = {dtype: torch.iinfo(dtype).min for dtype in (torch.int8, torch.int32, torch.int64)}
"""
# Code -> the exception and words of its text.
REFUSED = {
    "F.ctc_loss(logits, full((3, 30), 2**40), [50] * 3, [30] * 3)": (
        "IndexError target 1099511627776 is out of range; expected 0 to 19"
    ),
    "F.ctc_loss(logits, full((3, 30), 20), [50] * 3, [30] * 3)": "IndexError target 20 is out of",
    "F.ctc_loss(logits, full((3, 30), -1), [50] * 3, [30] * 3)": "IndexError target -1 is out of",
    "F.ctc_loss(logits, full((90,), 99), torch.tensor([50] * 3), torch.tensor([30] * 3))": (
        "IndexError target 99 is out of range; expected 0 to 19"
    ),
    "F.ctc_loss(logits, full((3, 30), 99), [50] * 3, [40] * 3)": "RuntimeError",
    "torch.ops.aten.adaptive_max_pool2d_backward(pooled, image, full((2, 4, 3, 3), 10**9))": (
        "IndexError index 1000000000 is out of range; expected 0 to 35"
    ),
    "torch.ops.aten.adaptive_max_pool3d_backward(volume, volume, full((2, 4, 6, 6, 6), -5))": (
        "IndexError index -5 is out of range; expected 0 to 215"
    ),
    "torch.ops.aten.max_pool3d_with_indices_backward(volume, volume, [1] * 3, [1] * 3, [0] * 3, "
    "[1] * 3, False, full((2, 4, 6, 6, 6), 10**9))": "IndexError index 1000000000",
    "torch.ops.aten._embedding_bag_dense_backward(on(3, 6), full((3,), 2**40), full((3,), 0), "
    "full((3,), 1), full((3,), 0), 6, False, 0, None, -1)": "IndexError index 1099511627776",
    "torch.ops.aten._embedding_bag_dense_backward(on(3, 6), full((3,), 1), full((3,), 9), "
    "full((3,), 1), full((3,), 0), 6, False, 0, None, -1)": "IndexError bag 9 is out of range",
    "torch.lu_unpack(on(4, 4), full((0,), 1, torch.int32))": "ValueError pivots have size [0]",
    "torch.native_group_norm(image, None, None, 2, 4, 36, 0, 1e-5)": "RuntimeError groups",
    "torch.native_group_norm(image, None, None, 2, 4, 36, -1, 1e-5)": "RuntimeError groups",
    "torch.native_group_norm(image, None, None, 2, 4, 36, 3, 1e-5)": "RuntimeError 3 groups",
    "torch.native_group_norm(image, None, None, 0, 4, 36, 2, 1e-5)": "RuntimeError",
    "torch.native_group_norm(image, None, None, 2, 4, 2**62, 2, 1e-5)": "RuntimeError",
    "F.conv2d(image, on(4, 4, 3, 3), stride=-(2**63))": "RuntimeError",
    "torch.full((-(2**63),), 1.0, device='spyre')": "RuntimeError",
    "full((2,), 7) // full((2,), 0)": "RuntimeError ZeroDivisionError",
    "torch.fmod(full((2,), 7), full((2,), 0))": "RuntimeError ZeroDivisionError",
    "torch.div(full((2,), 7), full((2,), 0), rounding_mode='trunc')": (
        "RuntimeError ZeroDivisionError: the divisor of aten::div.Tensor_mode is a tensor of"
    ),
}
# Code -> what it gives.
ANSWERED = {
    "F.ctc_loss(logits, F.pad(full((3, 4), 3), (0, 9), value=-1), [50] * 3, [4] * 3) > 0": "True",
    "on(3).roll(-(2**63)).tolist()": "[1.0, 1.0, 1.0]",
    **{
        f"torch.div(full((1,), least[{dtype}], {dtype}), full((1,), -1, {dtype}), "
        "rounding_mode='trunc').item()": str(least)
        for dtype, least in (
            ("torch.int8", -(2**7)),
            ("torch.int32", -(2**31)),
            ("torch.int64", -(2**63)),
        )
    },
    "torch.remainder(full((1,), -(2**63)), full((1,), -1)).item()": "0",
    "(full((2,), 7) // full((2,), -2)).tolist()": "[-4, -4]",
}


_told: dict[str, str] = {}


@pytest.fixture
def told(run_python):
    """What each case gave, by its code."""
    if not _told:
        cases = [*REFUSED, *ANSWERED]
        out = run_python(
            SETUP
            + f"""
    for number, case in enumerate({cases!r}):
        try:
            result = str(eval(case))
            torch.spyre.synchronize()
        except Exception as error:
            result = type(error).__name__ + " " + str(error).replace(chr(10), " ")
        print("case", number, result, flush=True)
    """
        )
        for line in out.splitlines():
            if line.startswith("case "):
                _, number, result = line.split(" ", 2)
                _told[cases[int(number)]] = result
    return _told


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(told, case):
    kind, _, words = REFUSED[case].partition(" ")
    assert told[case].startswith(kind + " ")
    assert words in told[case]
    assert "INTERNAL ASSERT" not in told[case]


@pytest.mark.parametrize("case", ANSWERED)
def test_it_is_answered(told, case):
    assert told[case].startswith(ANSWERED[case]) or ANSWERED[case] in told[case]
