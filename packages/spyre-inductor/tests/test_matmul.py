# SPDX-License-Identifier: Apache-2.0
"""Matrix products: epilogues in the same stage, operands read in place through views."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import check


def stages(log):
    return [len(program.kernels) for program, _ in log.programs]


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 5, 3), (33, 70, 65), (64, 64, 64), (1, 384, 1000), (7, 1, 9), (3, 0, 4)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_mm(m, k, n, dtype):
    a, b, c = (
        (torch.randn(m, k) * max(k, 1) ** -0.5).to(dtype),
        torch.randn(k, n).to(dtype),
        torch.randn(n).to(dtype),
    )
    check(lambda a, b, c: (a @ b, torch.addmm(c, a, b, beta=0.5, alpha=2)), a, b, c, tolerance=3e-2)


@pytest.mark.parametrize("shape", [(1, 37), (5, 64), (3, 1)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_products_of_a_tensor_with_itself(shape, dtype):
    def products(x):
        return x @ x.T, F.linear(x, x), torch.einsum("bi,bi->b", x, x), x[:, None] @ x[:, :, None]

    check(products, (torch.randn(shape) * shape[1] ** -0.5).to(dtype), tolerance=3e-2)


def test_linear_epilogue_is_one_stage():
    x, w, b, r = (torch.randn(*s).half() for s in [(6, 40), (30, 40), (30,), (6, 30)])
    log = check(lambda x, w, b, r: F.gelu(F.linear(x, w, b)) * 2 + r, x, w, b, r, tolerance=3e-2)
    assert stages(log) == [1]
    assert "gelu" in log.programs[0][1].text


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_bmm_and_broadcasting_matmul(dtype):
    a, b = torch.randn(2, 3, 5, 33).to(dtype), torch.randn(3, 33, 9).to(dtype)
    check(
        lambda a, b: (a @ b, a[0] @ b, torch.einsum("bhik,hkj->bijh", a, b)), a, b, tolerance=3e-2
    )


def test_transposed_and_sliced_operands():
    a, b = torch.randn(40, 6).half(), torch.randn(30, 80).half()
    log = check(
        lambda a, b: (a.t() @ b[:, ::2].t(), a[1:9].t() @ b[:8, 3:50]), a, b, tolerance=3e-2
    )
    assert stages(log) == [2]


@pytest.mark.parametrize(
    "operand",
    [
        torch.zeros_like,
        lambda x: torch.full((5,), 0.5, dtype=x.dtype, device=x.device).expand(3, 5),
        lambda x: (torch.arange(15, device=x.device).view(5, 3).t() / 8).to(x.dtype),
    ],
    ids=["zeros", "expanded", "arange"],
)
def test_a_computed_operand_is_loaded_too(operand):
    x, w = torch.randn(3, 5), torch.randn(5, 4)

    check(
        lambda x, w: (operand(x) @ w, (x @ w) @ torch.ones(4, 6, dtype=x.dtype, device=x.device)),
        x.half(),
        w.half(),
        tolerance=3e-2,
    )


def heads_in_place(x, wq, wk, wv):
    batch, length, _ = x.shape
    q, k, v = (F.linear(x, w).view(batch, length, 4, 8).transpose(1, 2) for w in (wq, wk, wv))
    out = F.scaled_dot_product_attention(q, k, v)
    return out.transpose(1, 2).reshape(batch, length, 32)


def test_attention():
    x, *w = (torch.randn(*s).half() * 0.5 for s in [(2, 7, 32), (32, 32), (32, 32), (32, 32)])
    log = check(heads_in_place, x, *w, tolerance=2e-2)
    assert len(log.programs) == 1
    assert stages(log)[0] <= 6  # three projections, scores, softmax, mix


@pytest.mark.parametrize("causal", [False, True])
def test_masked_attention(causal):
    q, k, v = (torch.randn(2, 3, 6, 16).half() for _ in range(3))
    mask = None if causal else torch.rand(2, 1, 6, 6) > 0.3
    if mask is not None:
        mask[..., 0] = True
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=causal),
        q,
        k,
        v,
        tolerance=2e-2,
    )
    if mask is not None:
        check(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
            q,
            k,
            v,
            mask,
            tolerance=2e-2,
        )


def test_float32_result_stays_wide():
    a, b = torch.randn(4, 16), torch.randn(16, 4)
    log = check(lambda a, b: (a * 2) @ (b + 1) * 1.001, a, b, tolerance=2e-2)
    assert "float32" in log.programs[0][1].text


def test_integer_mm_runs_eagerly():
    check(lambda a, b: a @ b + 1, torch.randint(0, 9, (3, 4)), torch.randint(0, 9, (4, 5)))


def put(cache, a, b, rows):
    cache[rows] = torch.relu(a @ b)
    return cache * 2


def add(cache, a, b, rows):
    cache.index_put_((rows,), a @ b, accumulate=True)
    return cache * 2


def copy(cache, a, b, rows):
    return cache.index_copy_(0, rows, a @ b) * 2


@pytest.mark.parametrize("update", [put, add, copy])
def test_products_are_written_at_an_index(update):
    """What a key-value cache does; a product's iterations have no order, so it scatters after."""
    cache, rows = torch.randn(8, 16).half(), torch.tensor([3, 1, 6])
    check(update, cache, torch.randn(3, 32).half(), torch.randn(32, 16).half(), rows)


@pytest.mark.parametrize(
    "operand",
    {
        "heads": lambda x: x.view(6, 4, 40).transpose(0, 1).reshape(24, 40),
        "flip": lambda x: x.flip(0),
        "roll": lambda x: x.roll(3, 1),
        "pad": lambda x: F.pad(x, (0, 0, 1, 1)),
        "windows": lambda x: x.unfold(1, 40, 20).reshape(-1, 40),
        "columns of an odd width": lambda x: x.view(-1)[:960].view(-1, 40).t().reshape(-1, 40),
        "cat": lambda x: torch.cat([x, x[:3]]),
        "gather": lambda x: x[torch.tensor([3, 0, 2], device=x.device)],
        "every other": lambda x: x.view(-1)[::2].view(-1, 40),
    }.values(),
)
def test_operands_of_any_order(operand):
    """Also those whose elements lie at no affine offsets in tiled memory."""
    x, w = ((torch.randn(*s) * 16).round().half() / 16 for s in [(6, 160), (40, 24)])
    fn = lambda x, w: F.pad(operand(x), (0, 0))[:, :40] @ w  # noqa: E731
    check(fn, x, w)
    check(lambda x, w: operand(x)[:, :40] @ w[:, 3:].relu() + 1, x, w)


EMPTY_PRODUCTS = {
    "mm": (lambda a, b: a @ b, ((3, 0), (0, 4))),
    "bmm": (lambda a, b: a @ b, ((2, 3, 0), (2, 0, 4))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), ((4,), (3, 0), (0, 4))),
    "addmm without bias": (lambda c, a, b: torch.addmm(c, a, b, beta=0), ((4,), (3, 0), (0, 4))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b), ((2, 3, 4), (2, 3, 0), (2, 0, 4))),
    "linear": (F.linear, ((2, 3, 0), (4, 0), (4,))),
    "mv": (lambda a, b: a @ b, ((3, 0), (0,))),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((2, 3, 0),) * 3),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize(("fn", "sizes"), EMPTY_PRODUCTS.values(), ids=EMPTY_PRODUCTS.keys())
def test_sums_of_nothing_are_zero(fn, sizes, dtype):
    check(fn, *(torch.randn(size).to(dtype) for size in sizes))


def test_convolution_of_no_channels():
    x, w = torch.randn(2, 0, 5), torch.randn(4, 0, 3)
    check(lambda x, w: F.conv1d(x, w), x, w, fallbacks=1)
