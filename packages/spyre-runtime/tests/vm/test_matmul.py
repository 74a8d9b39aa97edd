# SPDX-License-Identifier: Apache-2.0
"""Products of any shape and stride against float64 on the CPU."""

from __future__ import annotations

import pytest
import torch
from programs import run, stage

DOT = "phase reduce\n%0 = load a0\n%1 = load a1\n%2 = dot %0 %1\nphase\nstore a2 %2"


def product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """out = a @ b for matrices on the CPU of any strides; runs on spyre."""
    (m, k), n = a.shape, b.shape[1]
    flat = [
        torch.as_strided(t, (t.untyped_storage().size() // t.element_size(),), (1,), 0)
        for t in (a, b)
    ]
    tensors = [*(t.to("spyre") for t in flat), out]
    accesses = [
        (0, [a.stride(0), 0, a.stride(1)], a.storage_offset()),
        (1, [0, b.stride(1), b.stride(0)], b.storage_offset()),
        (2, [out.stride(0), out.stride(1), 0], 0),
    ]
    run(stage(tensors, [m, n, k], accesses, DOT, reduce=1), tensors)
    return out.cpu()


def matrix(rows: int, cols: int, seed: int, transposed: bool, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if transposed:
        return (torch.randn(cols, rows, generator=generator) * scale).half().t()
    return (torch.randn(rows, cols, generator=generator) * scale).half()


def sen169(x: torch.Tensor) -> torch.Tensor:
    """What the device holds of a half tensor."""
    return x.to("spyre").cpu()


SHAPES = [
    (1, 1, 1),
    (1, 100, 77),
    (5, 200, 130),
    (8, 65, 300),
    (9, 64, 64),
    (70, 30, 100),
    (64, 64, 64),
]
SHAPES += [(3, 1, 50), (200, 1, 300), (130, 300, 257), (300, 70, 520), (2, 600, 40)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_product(shape: tuple[int, int, int], left: bool, right: bool) -> None:
    m, n, k = shape
    a, b = sen169(matrix(m, k, 1, left)), sen169(matrix(k, n, 2, right))
    got = product(a, b, torch.empty(m, n, device="spyre"))
    torch.testing.assert_close(got.double(), a.double() @ b.double(), rtol=1e-5, atol=3e-5 * k**0.5)


@pytest.mark.parametrize("scale", [1e-5, 3e3])
def test_values_beyond_half_keep_their_accuracy(scale: float) -> None:
    # Products of such values leave the range of half-precision engines.
    a, b = sen169(matrix(100, 300, 1, False, scale)), sen169(matrix(300, 90, 2, True))
    wide = a.float() * 64, b.float() / 2048
    out = torch.empty(100, 90, device="spyre")
    got = product(wide[0].contiguous(), wide[1].contiguous(), out)
    want = wide[0].double() @ wide[1].double()
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5 * want.abs().max().item())


def test_blocks_of_different_scale_add_up() -> None:
    # The depth is worked on in blocks, each with a scale of its own.
    scales = torch.tensor([1e-6, 3e3, 1.0, 1e-3]).repeat_interleave(256)
    a, b = sen169(matrix(70, 1024, 1, False) * scales.half()), sen169(matrix(1024, 80, 2, True))
    got = product(a, b, torch.empty(70, 80, device="spyre"))
    want = a.double() @ b.double()
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=3e-7 * want.abs().max().item())


@pytest.mark.parametrize("left_span", [0, 35, 62])
@pytest.mark.parametrize("right_span", [0, 35, 62])
def test_values_of_any_span(left_span: int, right_span: int) -> None:
    # One block of halves takes 30 binades, two take 60; beyond that bfloat16 pairs do.
    generator = torch.Generator().manual_seed(0)

    def values(rows: int, cols: int, span: int) -> torch.Tensor:
        exponents = torch.randint(
            -(span // 2), span - span // 2 + 1, (rows, cols), generator=generator
        )
        signs = torch.randint(0, 2, (rows, cols), generator=generator) * 2 - 1
        fractions = torch.randint(512, 1024, (rows, cols), generator=generator) / 512
        return fractions * signs * 2.0**exponents

    a, b = values(140, 600, left_span), values(600, 90, right_span)
    got = product(a, b, torch.empty(140, 90, device="spyre"))
    terms = a.double().abs() @ b.double().abs()
    error = (got.double() - a.double() @ b.double()).abs() / terms
    # Products are exact and sums are float32: 600 roundings, each of 2^-24 at most, that are as
    # often up as down.
    assert error.max() < 600**0.5 * 2**-24


@pytest.mark.parametrize("shape", [(300, 1500, 1100), (150, 520, 2100), (1000, 20, 70)])
def test_products_of_many_tiles(shape: tuple[int, int, int]) -> None:
    # Columns in several strips, a depth of several blocks, more rows than a tile.
    m, n, k = shape
    a, b = sen169(matrix(m, k, 1, False)), sen169(matrix(n, k, 2, False)).t()
    got = product(a, b, torch.empty(m, n, device="spyre"))
    torch.testing.assert_close(got.double(), a.double() @ b.double(), rtol=1e-5, atol=3e-5 * k**0.5)


@pytest.mark.parametrize("length", [4, 8, 12, 32, 64, 100])
def test_depth_in_runs(length: int) -> None:
    # The depth of an operand lies in pieces, as that of joined heads does.
    heads, m, n = 6, 130, 70
    a = sen169(matrix(heads * m, length, 1, False)).view(heads, m, length)
    b = sen169(matrix(n, heads * length, 2, False))
    out = torch.empty(m, n, device="spyre")
    tensors = [a.to("spyre"), b.to("spyre"), out]
    accesses = [
        (0, [length, 0, m * length, 1], 0),
        (1, [0, heads * length, length, 1], 0),
        (2, [n, 1, 0, 0], 0),
    ]
    run(stage(tensors, [m, n, heads, length], accesses, DOT, reduce=2), tensors)
    want = a.transpose(0, 1).reshape(m, -1).double() @ b.double().t()
    torch.testing.assert_close(out.cpu().double(), want, rtol=1e-5, atol=1e-3)


def test_nan_goes_where_it_should() -> None:
    a, b = matrix(40, 80, 1, False), matrix(80, 70, 2, False)
    a[3, 5] = torch.nan
    got = product(a, b, torch.empty(40, 70, device="spyre"))
    assert got[3].isnan().all()
    assert not got[torch.arange(40) != 3].isnan().any()


def test_no_depth_gives_zeros() -> None:
    a, b = torch.empty(5, 0, dtype=torch.float16), torch.empty(0, 70, dtype=torch.float16)
    got = product(a, b, torch.ones(5, 70, device="spyre"))
    assert torch.equal(got, torch.zeros(5, 70))


def test_heads_are_read_in_place_and_the_epilogue_runs() -> None:
    batch, length, heads, width = 2, 17, 3, 20
    inner = heads * width
    q, k = (
        torch.randn(batch, length, inner, generator=torch.Generator().manual_seed(s)).half()
        for s in (1, 2)
    )
    bias = torch.randn(length).half()
    out = torch.empty(batch, heads, length, length, dtype=torch.float16, device="spyre")
    tensors = [q.to("spyre"), k.to("spyre"), bias.to("spyre"), out]
    accesses = [
        (0, [length * inner, width, inner, 0, 1], 0),
        (1, [length * inner, width, 0, inner, 1], 0),
        (3, [*out.stride(), 0], 0),
        (2, [0, 0, 0, 1, 0], 0),
    ]
    body = DOT.replace(
        "store a2 %2",
        "%3 = const_f 0.25\n%4 = mul %2 %3\n%5 = load a3\n%6 = add %4 %5\nstore a2 %6",
    )
    run(stage(tensors, [batch, heads, length, length, width], accesses, body, reduce=1), tensors)
    split = [t.view(batch, length, heads, width).transpose(1, 2).float() for t in (q, k)]
    want = split[0] @ split[1].transpose(-1, -2) * 0.25 + bias.float()
    torch.testing.assert_close(out.cpu().float(), want, rtol=4e-3, atol=2e-2)


def test_convolution_is_a_product() -> None:
    x, w = torch.randn(2, 5, 12, 13).half(), torch.randn(7, 5, 3, 3).half()
    out = torch.empty(2, 7, 10, 11, dtype=torch.float16, device="spyre")
    tensors = [x.to("spyre"), w.to("spyre"), out]
    sx, sw, so = x.stride(), w.stride(), out.stride()
    accesses = [
        (0, [sx[0], 0, sx[2], sx[3], sx[1], sx[2], sx[3]], 0),
        (1, [0, sw[0], 0, 0, sw[1], sw[2], sw[3]], 0),
        (2, [*so, 0, 0, 0], 0),
    ]
    run(stage(tensors, [2, 7, 10, 11, 5, 3, 3], accesses, DOT, reduce=3), tensors)
    want = torch.nn.functional.conv2d(x.float(), w.float())
    torch.testing.assert_close(out.cpu().float(), want, rtol=4e-3, atol=3e-2)


def test_a_product_that_scatters_is_refused_with_advice() -> None:
    a, b, rows = torch.ones(4, 8), torch.ones(8, 8), torch.arange(4)
    tensors = [t.to("spyre") for t in (a.half(), b.half(), torch.zeros(4, 8).half(), rows)]
    accesses = [(0, [8, 0, 1], 0), (1, [0, 1, 8], 0), (2, [0, 1, 0], 0), (3, [1, 0, 0], 0)]
    body = DOT.replace("store a2 %2", "%3 = load a3\n%4 = const_i 8\n%5 = mul_i %3 %4\n")
    text = stage(tensors, [4, 8, 8], accesses, body + "store a2 [%5] %2", reduce=1)
    with pytest.raises(ValueError, match=r"stores to b2 at an index, .* store the product first"):
        run(text, tensors)
