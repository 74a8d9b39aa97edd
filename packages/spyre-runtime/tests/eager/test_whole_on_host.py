# SPDX-License-Identifier: Apache-2.0
"""Operators with helpers in float64 or complex inside: on the host as a whole, gradients too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compare import mismatch
from torch.utils._pytree import tree_leaves

pytestmark = pytest.mark.usefixtures("quiet_fallback")

CASES = {
    "pinv": (torch.linalg.pinv, [(4, 6)]),
    "pinv with a tolerance": (lambda x: torch.linalg.pinv(x, rtol=1e-3), [(2, 4, 3)]),
    "pinverse": (torch.pinverse, [(5, 3)]),
    "matrix_rank": (torch.linalg.matrix_rank, [(4, 6)]),
    "cond": (torch.linalg.cond, [(4, 4)]),
    "svdvals": (torch.linalg.svdvals, [(4, 6)]),
    "nuclear norm": (lambda x: torch.linalg.matrix_norm(x, "nuc"), [(4, 6)]),
    "lstsq": (lambda x, y: torch.linalg.lstsq(x, y).solution, [(6, 4), (6, 2)]),
    "solve": (torch.linalg.solve, [(4, 4), (4, 2)]),
    "irfft": (torch.fft.irfft, [(4, 6)]),
    "hfft2": (torch.fft.hfft2, [(4, 6)]),
    "stft": (
        lambda x: torch.stft(x, 10, window=torch.ones(10).to(x.device), return_complex=False),
        [(100,)],
    ),
    "renorm": (lambda x: x.renorm(2, 0, 1.0), [(4, 6)]),
    "grid_sample": (
        lambda x, grid: F.grid_sample(x, grid.tanh() * 0.7, align_corners=False),
        [(1, 2, 4, 4), (1, 3, 3, 2)],
    ),
    "batch_norm of nothing": (
        lambda x: F.batch_norm(x, None, None, training=True),
        [(0, 3, 2, 2)],
    ),
}


def results(run, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Values, gradients, and gradients of the gradients."""
    values = [x.clone().requires_grad_() for x in inputs]
    outputs = [x for x in tree_leaves(run(*values)) if isinstance(x, torch.Tensor)]
    found = list(outputs)
    for _ in range(2):
        outputs = [x for x in outputs if x is not None and x.requires_grad]
        if not outputs:
            break
        total = sum(x.square().sum() for x in outputs)
        outputs = list(torch.autograd.grad(total, values, create_graph=True, allow_unused=True))
        found += [x for x in outputs if x is not None]
    return found


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    run, shapes = CASES[name]
    inputs = [torch.randn(shape) for shape in shapes]
    actual = results(run, [x.to("spyre") for x in inputs])
    assert all(x.device.type == "spyre" for x in actual)
    found = mismatch(actual, results(run, inputs), rtol=1e-3, atol=1e-4, strides=False)
    assert found is None, found


def test_without_autograd_and_with_out() -> None:
    x = torch.randn(4, 4)
    with torch.inference_mode():
        assert torch.linalg.matrix_rank(x.to("spyre")).item() == 4
        found = torch.linalg.pinv(x.to("spyre"))
        torch.testing.assert_close(found.cpu(), torch.linalg.pinv(x), rtol=1e-4, atol=1e-4)
    out = torch.empty(0, device="spyre")
    assert torch.fft.irfft(x.to("spyre"), out=out) is out
    torch.testing.assert_close(out.cpu(), torch.fft.irfft(x))


def test_counted_and_forbidden_like_other_fallbacks(monkeypatch) -> None:
    x = torch.eye(3, device="spyre")
    torch.spyre.reset_fallbacks()
    torch.fft.irfft(x)
    assert torch.spyre.fallbacks()["aten::fft_irfft"] == 1
    monkeypatch.setenv("SPYRE_FALLBACK", "error")
    with pytest.raises(NotImplementedError, match=r"fft_irfft.*float32\[3, 3\].*SPYRE_FALLBACK"):
        torch.fft.irfft(x)


def test_results_without_a_format_stay_refused() -> None:
    with pytest.raises(NotImplementedError, match="complex64"):
        torch.fft.rfft(torch.ones(4, device="spyre"))
    with pytest.raises(NotImplementedError, match="float64"):
        torch.linalg.vector_norm(torch.ones(4, device="spyre"), dtype=torch.float64)


def test_tensors_of_two_devices() -> None:
    x = torch.eye(3)
    for run in (torch.linalg.solve, torch.linalg.lstsq, torch.linalg.solve_triangular):
        keywords = {"upper": True} if run is torch.linalg.solve_triangular else {}
        with pytest.raises(RuntimeError, match="same device.*spyre:0 and cpu"):
            run(x.to("spyre"), x, **keywords)
