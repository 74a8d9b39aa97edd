# SPDX-License-Identifier: Apache-2.0
"""What the device's formats and streams make special: infinities, masks, wrapping, late errors."""

import pytest
import torch
import torch.nn.functional as F
from compare import as_held, mismatch, to_device

INF = float("inf")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_infinities_and_nan(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, -0.0, 1.5, INF, -INF, float("nan"), 3.0], dtype=dtype)
    x = values.to("spyre")
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf"):
        assert torch.equal(getattr(torch, name)(x).cpu(), getattr(torch, name)(values)), name
    assert torch.equal((x == INF).cpu(), values == INF)
    assert torch.equal((x > 1e4).cpu(), values > 1e4)
    assert torch.equal(
        torch.full((3,), -INF, dtype=dtype, device="spyre").cpu(),
        torch.full((3,), -INF, dtype=dtype),
    )
    assert torch.equal(torch.nan_to_num(x).isfinite().cpu(), torch.ones(7, dtype=torch.bool))


def test_finite_extremes_stay_finite() -> None:
    lowest = torch.finfo(torch.float16).min
    x = torch.zeros(4, dtype=torch.float16, device="spyre").masked_fill(
        torch.tensor([True, False, True, False], device="spyre"), lowest
    )
    assert x.cpu().isfinite().all()
    assert torch.equal(
        torch.full((2,), lowest, dtype=torch.float16, device="spyre").cpu(), x[::2].cpu()
    )
    assert bool((x[0] == lowest).cpu())


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 2.7, 65504, -1e-7])
def test_numbers_compare_like_stored_ones(value: float) -> None:
    stored = torch.tensor([value], dtype=torch.float16).to("spyre")
    filled = torch.full((1,), value, dtype=torch.float16, device="spyre")
    assert bool((stored == value).cpu())
    assert bool((filled == value).cpu())
    assert bool((stored >= value).cpu())
    assert bool((stored <= value).cpu())
    assert not bool((stored != filled).cpu())


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str
)
def test_integers_wrap_like_cpu(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    a = torch.tensor([info.max, info.min, info.max, 7, 100], dtype=dtype)
    b = torch.tensor([1, 1, info.max, 3, 100], dtype=dtype)
    x, y = a.to("spyre"), b.to("spyre")
    for run in (
        lambda p, q: p + q,
        lambda p, q: p - q,
        lambda p, q: p * q,
        lambda p, q: p & q,
        lambda p, q: p ^ q,
        lambda p, q: -p,
        lambda p, q: p + 1,
        lambda p, q: p // 3,
        lambda p, q: p % 3,
        lambda p, q: torch.fmod(p, 5),
        lambda p, q: p.sum(),
        lambda p, q: p.abs(),
        lambda p, q: p > q,
        lambda p, q: p / 3,
        lambda p, q: p << 2,
        lambda p, q: p >> 1,
        lambda p, q: torch.div(p, 3, rounding_mode="trunc"),
        lambda p, q: p**2,
        lambda p, q: ~p,
        lambda p, q: p.amax(),
        lambda p, q: p.argmin(),
        lambda p, q: p.clamp(2, 9),
        lambda p, q: p.prod(),
    ):
        found = mismatch(run(x, y), run(a, b), rtol=1e-6, atol=0)
        assert found is None, found


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64], ids=str)
def test_numbers_are_taken_in_the_dtype_of_the_integers(dtype: torch.dtype) -> None:
    a = torch.tensor([torch.iinfo(dtype).max, 0, 1], dtype=dtype)
    for run in (
        lambda x: x == -1,
        lambda x: x < -1,
        lambda x: x >= -1,
        lambda x: x // -1,
        lambda x: x % -2,
        lambda x: torch.fmod(x, -2),
        lambda x: torch.div(x, -2, rounding_mode="trunc"),
        lambda x: x.clamp(min=-1),
        lambda x: torch.maximum(x, torch.tensor(-1)),
        lambda x: torch.where(x > 0, x, -1),
        lambda x: x.masked_fill(x > 0, -1),
        lambda x: torch.add(x, x, alpha=-1),
    ):
        found = mismatch(run(a.to("spyre")), run(a), rtol=0, atol=0)
        assert found is None, found


def test_arange_keeps_the_shape_of_an_out_of_as_many_elements() -> None:
    out = torch.zeros(2, 3, device="spyre")
    assert torch.arange(6, out=out).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert torch.arange(4, out=out).shape == (4,)


def test_wider_out_of_half() -> None:
    a = torch.tensor([1.5, -2.0, 40.0], dtype=torch.float16)
    x = a.to("spyre")
    for run in (
        torch.hypot,
        torch.logaddexp,
        lambda p, q, out: torch.lerp(p, q, 0.25, out=out),
        lambda p, q, out: torch.threshold(p, 1.0, 2.0, out=out),
    ):
        expected, found = torch.empty(3), torch.empty(3, device="spyre")
        run(a, a, out=expected)
        run(x, x, out=found)
        assert mismatch(found, expected, rtol=2.0**-9, atol=0) is None
    assert torch.hypot(x, x.float()).dtype == torch.float32


def test_division_of_integers_by_zero_raises() -> None:
    x = torch.tensor([1, 2], device="spyre")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // torch.tensor([0, 1], device="spyre")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x % 0


@pytest.mark.parametrize(
    "run",
    [
        lambda x, i: x.index_select(0, i),
        lambda x, i: x[i],
        lambda x, i: F.embedding(i, x),
        lambda x, i: x.gather(0, i.unsqueeze(1)),
        lambda x, i: x.scatter(0, i.unsqueeze(1), 1.0),
        lambda x, i: x.index_add(0, i, x[:2] * 1),
        lambda x, i: x.index_put((i,), x[:2] * 1),
    ],
)
@pytest.mark.parametrize("bad", [5, -6, 10**12])
def test_index_out_of_range(run, bad: int) -> None:
    x = torch.randn(5, 70).half().to("spyre")
    with pytest.raises(IndexError):
        run(x, torch.tensor([1, bad], device="spyre"))
        torch.spyre.synchronize()
    torch.spyre.synchronize()
    good = run(x, torch.tensor([1, 4], device="spyre"))
    assert good.cpu().isfinite().all()


def attention_reference(q, k, v, **keywords):
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), **keywords)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "hole"])
def test_attention(dtype: torch.dtype, kind: str) -> None:
    q, k, v = (as_held(torch.randn(2, 3, 17, 24).to(dtype)) for _ in range(3))
    keywords, device_keywords = {}, {}
    if kind == "causal":
        keywords = device_keywords = {"is_causal": True}
    elif kind in ("bool", "hole"):
        mask = torch.rand(2, 1, 17, 17) > 0.4
        if kind == "hole":
            mask[:, :, 5] = False
        else:
            mask[..., 0] = True
        keywords, device_keywords = {"attn_mask": mask}, {"attn_mask": mask.to("spyre")}
    elif kind == "float":
        mask = torch.where(torch.rand(17, 17) > 0.3, 0.0, -INF)
        mask[:, 0] = 0
        keywords, device_keywords = {"attn_mask": mask}, {"attn_mask": mask.to(dtype).to("spyre")}
    actual = F.scaled_dot_product_attention(*(to_device(t) for t in (q, k, v)), **device_keywords)
    expected = attention_reference(q, k, v, **keywords)
    # float32 operands are rounded to SEN169, whose error the scores amplify.
    limit = 2.0**-9 if dtype is torch.float16 else 2.0**-7
    found = mismatch(actual, expected, rtol=0, atol=limit, half=True)
    assert found is None, found


def test_row_that_is_masked_out_entirely() -> None:
    x = torch.zeros(3, 70, dtype=torch.float16)
    x[1] = -INF
    expected = torch.softmax(x.float(), -1)
    actual = torch.softmax(x.to("spyre"), -1)
    assert mismatch(actual, expected, rtol=2.0**-8, atol=0, half=True) is None
    assert actual[1].isnan().all()


def test_float64_is_refused() -> None:
    x = torch.ones(3, device="spyre")
    with pytest.raises((NotImplementedError, TypeError, RuntimeError), match="float64"):
        x + torch.ones(3, dtype=torch.float64)[0].expand(3).to("spyre")
    assert torch.equal((x + torch.tensor(2.0, dtype=torch.float64)).cpu(), torch.full((3,), 3.0))


def test_mixed_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="spyre") + torch.ones(3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool], ids=str)
def test_factories(dtype: torch.dtype) -> None:
    for run in (
        lambda d: torch.zeros(3, 70, dtype=dtype, device=d),
        lambda d: torch.ones(0, 4, dtype=dtype, device=d),
        lambda d: torch.full((2, 65), 1, dtype=dtype, device=d),
        lambda d: torch.zeros((), dtype=dtype, device=d).fill_(1),
        lambda d: torch.ones(6, 6, dtype=dtype, device=d).tril(-1),
        lambda d: torch.ones(2, 5, 7, dtype=dtype, device=d).triu(2),
        lambda d: torch.eye(4, dtype=dtype, device=d),
    ):
        assert mismatch(run("spyre"), run("cpu"), rtol=0, atol=0) is None
    if dtype is not torch.bool:
        for numbers in ((7,), (3, 130), (10, -3, -2), (0, 100, 7), (5, 5)):
            assert (
                mismatch(
                    torch.arange(*numbers, dtype=dtype, device="spyre"),
                    torch.arange(*numbers, dtype=dtype),
                    rtol=0,
                    atol=0,
                )
                is None
            )


SPECIAL_ROWS = (
    [1.0, 2.0, 3.0, -1.0],
    [-INF] * 4,
    [INF] * 4,
    [INF, 1.0, 2.0, 3.0],
    [-INF, 1.0, 2.0, 3.0],
    [float("nan"), 1.0, 2.0, 3.0],
    [-INF, -INF, float("nan"), 1.0],
    [INF, float("nan"), -INF, 0.0],
    [0.0, -0.0, 0.0, 0.0],
    [INF, -INF, 1.0, 2.0],
    [INF, 0.0, 1.0, 2.0],
)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.logsumexp(1),
        lambda x: x.logsumexp((0, 1)),
        lambda x: x.softmax(1),
        lambda x: x.log_softmax(1),
        lambda x: F.softmin(x, 1),
        lambda x: x.amax(1),
        lambda x: torch.aminmax(x, dim=1),
        lambda x: x.max(1),
        lambda x: x.argmin(1),
        lambda x: x.var(1),
        lambda x: x.std(1),
        lambda x: x.sum(1),
        lambda x: x.mean(1),
        lambda x: x.prod(1),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: torch.special.entr(x),
        *(lambda x, p=p: x.norm(p, dim=1) for p in (0, 0.5, 1, 2, 3, INF, -INF)),
    ],
)
def test_rows_with_infinities_and_nan(run, dtype: torch.dtype) -> None:
    values = torch.tensor(SPECIAL_ROWS, dtype=dtype)
    expected = run(values.float())
    rtol = 2.0**-7 if dtype is torch.bfloat16 else 2.0**-8  # the host's has eight bits
    found = mismatch(run(values.to("spyre")), expected, rtol=rtol, atol=0, half=True)
    assert found is None, found


@pytest.mark.parametrize("start", [1e4, -3e7])
def test_log_softmax_of_great_numbers(start: float) -> None:
    values = torch.tensor([[start, start, start - 2]])
    found = mismatch(values.to("spyre").log_softmax(1), values.log_softmax(1), rtol=1e-6, atol=0)
    assert found is None, found


def test_what_halves_cannot_hold_is_infinite() -> None:
    values = torch.tensor([[60000.0] * 4, [-60000.0] * 4]).half()
    for run in (
        lambda x: x.prod(1),
        lambda x: (x * x).sum(1),
        lambda x: x.var((0, 1)),
        lambda x: x.cumprod(1)[:, 2:],
    ):
        found = mismatch(run(values.to("spyre")), run(values.float()), rtol=0, atol=0, half=True)
        assert found is None, found


ATTENTION_SHAPES = (
    (1, 2, 17, 17, 24),
    (2, 12, 64, 64, 64),
    (1, 4, 60, 300, 64),
    (2, 3, 1, 77, 40),
    (1, 1, 128, 128, 128),
    (1, 8, 50, 50, 8),
)


@pytest.mark.parametrize("scale", [0.3, 1, 3, 10])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_as_exact_as_its_format(scale: float, is_causal: bool) -> None:
    for batch, heads, length, keys, channels in ATTENTION_SHAPES:
        sizes = ((batch, heads, n, channels) for n in (length, keys, keys))
        q, k, v = (as_held(torch.randn(size).half()) for size in sizes)
        q, k = as_held(q * scale), as_held(k * scale)
        mask = None if is_causal else as_held(torch.randn(length, keys).half())
        keywords = {"is_causal": is_causal}
        actual = F.scaled_dot_product_attention(
            *(to_device(t) for t in (q, k, v)),
            attn_mask=None if mask is None else to_device(mask),
            **keywords,
        )
        expected = attention_reference(
            q, k, v, attn_mask=None if mask is None else mask.float(), **keywords
        )
        found = mismatch(actual, expected, rtol=0, atol=2.0**-9, half=True)
        assert found is None, f"{length} {keys} {channels}: {found}"


@pytest.mark.usefixtures("quiet_fallback")
@pytest.mark.parametrize("padded", ["left", "right"])
def test_an_encoder_with_padding(padded):
    """PyTorch's encoder would make a nested tensor of padding on the right."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 5, 32)
    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
    mask = mask if padded == "right" else mask.flip(1)
    with torch.inference_mode():
        expected = encoder(x, src_key_padding_mask=mask)
        actual = encoder.to("spyre")(x.to("spyre"), src_key_padding_mask=mask.to("spyre")).cpu()
    torch.testing.assert_close(actual[~mask], expected[~mask], rtol=0.02, atol=0.02)
