# SPDX-License-Identifier: Apache-2.0
"""Native kernels on views of every kind: strides, offsets, broadcasts, ranks, in place and out=."""

import torch
from compare import as_held, mismatch, to_device
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
)
NO_DEADLINE = settings(deadline=None, max_examples=60, derandomize=True)


def fill(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Values that every dtype holds and that results of a few operations stay exact on."""
    values = (
        torch.randint(0, 5, shape)
        if dtype in (torch.bool, torch.uint8)
        else torch.randint(-4, 5, shape)
    )
    return values.to(dtype)


@st.composite
def views(draw: st.DrawFn, dtype: torch.dtype, max_rank: int = 5) -> torch.Tensor:
    """A CPU tensor that is a view of a larger one: sliced, transposed, with steps or expanded."""
    rank = draw(st.integers(0, max_rank))
    sizes = st.sampled_from((1, 2, 3, 5, 7, 64, 65, 130) if rank <= 2 else (1, 2, 3, 5))
    shape = [draw(sizes) for _ in range(rank)]
    steps = [draw(st.sampled_from((1, 1, 1, 2, 3))) for _ in range(rank)]
    starts = [draw(st.integers(0, 2)) for _ in range(rank)]
    order = draw(st.permutations(range(rank)))
    base_shape = [starts[d] + shape[d] * steps[d] + draw(st.integers(0, 2)) for d in range(rank)]
    base = fill(base_shape, dtype)
    view = base[tuple(slice(a, a + n * s, s) for a, n, s in zip(starts, shape, steps, strict=True))]
    view = view.permute(order)
    if rank and draw(st.booleans()):
        dim = draw(st.integers(0, rank - 1))
        view = view.narrow(dim, 0, 1).expand(
            [-1 if d != dim else shape[order[d]] for d in range(rank)]
        )
    if draw(st.integers(0, 9)) == 0 and rank:
        view = view.narrow(draw(st.integers(0, rank - 1)), 0, 0)
    return view


@st.composite
def pairs(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Two views that broadcast, of dtypes that may differ."""
    first = draw(views(draw(st.sampled_from(DTYPES))))
    dtype = draw(st.sampled_from(DTYPES))
    shape = [1 if draw(st.integers(0, 4)) == 0 else n for n in first.shape]
    shape = shape[draw(st.integers(0, len(shape))) :] if draw(st.integers(0, 3)) == 0 else shape
    order = draw(st.permutations(range(len(shape))))
    base = fill([shape[d] + draw(st.integers(0, 1)) for d in order], dtype)
    inverse = [order.index(d) for d in range(len(shape))]
    second = base.permute(inverse)[tuple(slice(n) for n in shape)]
    return first, second


def same(actual: torch.Tensor, expected: torch.Tensor, strides: bool = True) -> None:
    half = expected.dtype in (torch.float16, torch.bfloat16)
    rtol = 2.0**-8 if half else 1e-6
    found = mismatch(actual, expected, rtol=rtol, atol=0 if half else 1e-7, strides=strides)
    assert found is None, found


@NO_DEADLINE
@given(
    pairs(), st.sampled_from(["add", "sub", "mul", "maximum", "eq", "lt", "logical_and", "where"])
)
def test_binary(pair: tuple[torch.Tensor, torch.Tensor], name: str) -> None:
    a, b = pair

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if name == "where":
            return torch.where(x > y, x, y)
        return getattr(torch, name)(x, y)

    if name == "sub" and torch.bool in (a.dtype, b.dtype):
        return
    same(run(to_device(a), to_device(b)), run(a, b))


@NO_DEADLINE
@given(pairs(), st.sampled_from(["add_", "mul_", "copy_", "bitwise_xor_"]))
def test_in_place_on_a_view(pair: tuple[torch.Tensor, torch.Tensor], name: str) -> None:
    a, b = pair
    b = b.expand(a.shape) if b.dim() <= a.dim() else b
    if name == "bitwise_xor_" and (a.is_floating_point() or b.is_floating_point()):
        return
    device_a, device_b = to_device(a), to_device(b)
    try:
        expected = getattr(a, name)(b)
    except RuntimeError as error:
        try:
            getattr(device_a, name)(device_b)
        except RuntimeError as found:
            assert type(found) is type(error)
            return
        raise AssertionError(f"the CPU raises: {error}") from None
    getattr(device_a, name)(device_b)
    same(device_a, expected)
    # What lies beside the view in memory must be untouched.
    elements = a.untyped_storage().nbytes() // a.element_size()
    whole = device_a.as_strided((elements,), (1,), 0)
    same(whole, a.as_strided((elements,), (1,), 0))


@NO_DEADLINE
@given(pairs(), st.data())
def test_out(pair: tuple[torch.Tensor, torch.Tensor], data: st.DataObject) -> None:
    a, b = pair
    plain = torch.mul(a, b)
    shape = list(plain.shape)
    order = data.draw(st.permutations(range(len(shape))))
    dtype = data.draw(st.sampled_from((plain.dtype, torch.float32)))
    if not torch.can_cast(plain.dtype, dtype):
        return
    base = fill([shape[d] + 1 for d in order], dtype)
    inverse = [order.index(d) for d in range(len(shape))]
    out = base.permute(inverse)[tuple(slice(n) for n in shape)]
    device_out = to_device(out)
    torch.mul(to_device(a), to_device(b), out=device_out)
    torch.mul(a, b, out=out)
    same(device_out, out)


@NO_DEADLINE
@given(
    st.data(),
    st.sampled_from(DTYPES),
    st.sampled_from(["sum", "amax", "amin", "any", "all", "argmax", "prod", "max"]),
)
def test_reduction(data: st.DataObject, dtype: torch.dtype, name: str) -> None:
    x = data.draw(views(dtype))
    if x.numel() == 0 and name in ("amax", "amin", "argmax", "max"):
        return
    if name == "prod" and dtype is not torch.bool:
        x = x.clamp(max=2)
    if dtype == torch.bool and name == "argmax":
        return
    keywords = {}
    if x.dim() and name != "max" and data.draw(st.booleans()):
        keywords["keepdim"] = data.draw(st.booleans())
        dims = st.integers(-x.dim(), x.dim() - 1)
        keywords["dim"] = data.draw(dims)
    same(getattr(torch, name)(to_device(x), **keywords), getattr(torch, name)(x, **keywords))


@NO_DEADLINE
@given(st.data(), st.sampled_from((torch.float32, torch.float16)))
def test_softmax_and_layer_norm(data: st.DataObject, dtype: torch.dtype) -> None:
    x = data.draw(views(dtype, max_rank=4))
    if x.dim() == 0 or x.numel() == 0:
        return
    dim = data.draw(st.integers(0, x.dim() - 1))
    reference = as_held(x).float()
    rtol, atol = (2.0**-7, 2.0**-9) if dtype is torch.float16 else (1e-5, 1e-6)
    for run in (
        lambda t: torch.softmax(t, dim),
        lambda t: torch.log_softmax(t, dim),
        lambda t: torch.nn.functional.layer_norm(t, t.shape[dim:]),
    ):
        found = mismatch(
            run(to_device(x)), run(reference), rtol=rtol, atol=atol, half=True, strides=False
        )
        assert found is None, found


@NO_DEADLINE
@given(st.data(), st.sampled_from((torch.float32, torch.float16)))
def test_matrix_product(data: st.DataObject, dtype: torch.dtype) -> None:
    sizes = st.sampled_from((1, 2, 3, 17, 64, 65, 100))
    m, n, k = data.draw(sizes), data.draw(sizes), data.draw(sizes)
    batch = data.draw(st.sampled_from(((), (1,), (3,), (2, 3))))

    def matrix(rows: int, columns: int) -> torch.Tensor:
        padding = data.draw(st.sampled_from((0, 3)))
        if data.draw(st.booleans()):
            return fill([*batch, columns + padding, rows], dtype).mT[..., :columns]
        return fill([*batch, rows, columns + padding], dtype)[..., :columns]

    a, b = matrix(m, k), matrix(k, n)
    expected = (a.float() @ b.float()).to(dtype)
    same(to_device(a) @ to_device(b), expected, strides=False)


@NO_DEADLINE
@given(st.data(), st.sampled_from(DTYPES))
def test_indexing(data: st.DataObject, dtype: torch.dtype) -> None:
    x = data.draw(views(dtype, max_rank=4))
    if x.dim() == 0 or x.numel() == 0:
        return
    device = to_device(x)
    dim = data.draw(st.integers(0, x.dim() - 1))
    count = data.draw(st.integers(1, 9))
    index = torch.randint(0, x.shape[dim], (count,))
    same(device.index_select(dim, index.to("spyre")), x.index_select(dim, index))
    around = (slice(None),) * dim
    signed = index - x.shape[dim] * torch.randint(0, 2, (count,))
    same(device[(*around, signed.to("spyre"))], x[(*around, signed)], strides=False)
    wide = torch.randint(0, x.shape[dim], [count if d == dim else n for d, n in enumerate(x.shape)])
    same(device.gather(dim, wide.to("spyre")), x.gather(dim, wide))


def test_many_dimensions() -> None:
    for rank in (6, 7, 8):
        x = fill([2, 3, 1, 2, 3, 2, 1, 2][:rank], torch.float16)
        y = x.permute(*reversed(range(rank)))
        device = to_device(x)
        same(device.permute(*reversed(range(rank))) + 1, y + 1)
        same((device * 2).sum(tuple(range(0, rank, 2))), (x * 2).sum(tuple(range(0, rank, 2))))
        same(torch.cat([device, device], 1), torch.cat([x, x], 1))


def test_out_of_gathers_keeps_its_order() -> None:
    x = torch.randn(5, 5)
    index = torch.randint(0, 5, (5, 5))
    rows = torch.randint(0, 5, (5,))
    for name, arguments in (("gather", (0, index)), ("index_select", (1, rows))):
        on_device = [a.to("spyre") if isinstance(a, torch.Tensor) else a for a in arguments]
        for transposed in (False, True):
            expected = torch.zeros(5, 5)
            out = expected.to("spyre")
            if transposed:
                out, expected = out.T, expected.T
            getattr(torch, name)(x.to("spyre"), *on_device, out=out)
            getattr(torch, name)(x, *arguments, out=expected)
            same(out, expected)
