# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device, and on the device: any dtype, stride, offset and rank."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_cases import DTYPES, FLOAT8_DTYPES, SIZES, equal, values


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES + FLOAT8_DTYPES, ids=str)
def test_round_trip(dtype, size):
    source = values(size, dtype)
    there = source.to("spyre")
    assert there.device == torch.device("spyre:0")
    assert there.dtype == dtype
    assert there.stride() == source.stride()
    assert equal(there, source)


@pytest.mark.parametrize("source_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversion_between_host_and_device_and_on_the_device(source_dtype, dtype):
    source = values((3, 70), source_dtype)
    if source_dtype != torch.bool:
        source = source.abs()
    expected = source.to(dtype)
    assert equal(source.to("spyre", dtype), expected)
    there = source.to("spyre")
    assert equal(there.to(dtype), expected)
    back = torch.zeros(3, 70, dtype=dtype)
    back.copy_(there)
    assert torch.equal(back, expected)
    target = torch.zeros(3, 70, dtype=dtype, device="spyre")
    target.copy_(source)
    assert equal(target, expected)


def test_infinities_keep_their_meaning_through_casts_on_the_device():
    source = torch.tensor([float("inf"), -float("inf"), 1.5, -0.0, 70000.0, float("nan")])
    there = source.to("spyre")
    half = there.half().cpu()
    assert half[:4].tolist() == source[:4].tolist()
    assert half[4] == float("inf")
    assert half[5].isnan()
    wide = source[:4].half().to("spyre").float().cpu()
    assert wide.tolist() == source[:4].tolist()


def test_values_beyond_float16_survive_on_the_device():
    wide = torch.tensor([1e6, -3e9, 2.0**-30]).to("spyre")
    half = wide.half()
    again = half.clone().t().contiguous()
    assert torch.allclose(again.float().cpu(), wide.cpu(), rtol=2**-10)


@st.composite
def views(draw):
    """A base size and a function that takes some view of it."""
    rank = draw(st.integers(1, 5))
    size = (*(draw(st.integers(1, 9)) for _ in range(rank - 1)), draw(st.integers(1, 150)))
    order = draw(st.permutations(range(rank)))
    slices = []
    for d in order:
        start = draw(st.integers(0, size[d] - 1))
        stop = draw(st.integers(start, size[d]))
        slices.append(slice(start, stop, draw(st.integers(1, 3))))
    unsqueezed = draw(st.booleans())

    def view(tensor):
        out = tensor.permute(order)[tuple(slices)]
        return out.unsqueeze(0) if unsqueezed else out

    return size, view


@settings(max_examples=150, deadline=None)
@given(views(), st.sampled_from(DTYPES))
def test_views_read_and_written_like_on_the_cpu(case, dtype):
    size, view = case
    source = values(size, dtype)
    there = source.to("spyre")
    assert equal(view(there), view(source))  # device to host through a view
    assert equal(view(there).clone(), view(source))  # and on the device
    new = values(tuple(view(source).shape), dtype, seed=1)
    expected = source.clone()
    view(expected).copy_(new)
    from_host = there.clone()
    view(from_host).copy_(new)  # host to device into a view
    assert equal(from_host, expected)
    on_device = there.clone()
    view(on_device).copy_(new.to("spyre"))
    assert equal(on_device, expected)


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from((torch.float16, torch.float32, torch.int64)))
def test_strided_host_tensors(case, dtype):
    size, view = case
    source = view(values(size, dtype))
    assert equal(source.to("spyre"), source)
    target = view(torch.zeros(size, dtype=dtype))
    target.copy_(source.to("spyre"))
    assert torch.equal(target, source)


def test_broadcast():
    row = values((70,), torch.float16)
    column = values((3, 1), torch.float16)
    target = torch.empty(3, 70, dtype=torch.float16, device="spyre")
    for source in (row, column, row.to("spyre"), column.to("spyre"), torch.tensor(2.0)):
        target.copy_(source)
        assert equal(target, source.cpu().half().expand(3, 70))
    host = torch.empty(3, 70, dtype=torch.float16)
    host.copy_(row.to("spyre"))
    assert torch.equal(host, row.expand(3, 70))
    with pytest.raises(RuntimeError, match="expand"):
        target.copy_(torch.zeros(4, dtype=torch.float16))


def test_expanded_and_overlapping_sources():
    base = values((70,), torch.float16)
    there = base.to("spyre")
    assert equal(there.expand(4, 70), base.expand(4, 70))
    assert equal(there.expand(4, 70).contiguous(), base.expand(4, 70))
    assert equal(there.unfold(0, 8, 3), base.unfold(0, 8, 3))
    assert equal(there.unfold(0, 8, 3).contiguous(), base.unfold(0, 8, 3))
    assert equal(base.expand(4, 70).to("spyre"), base.expand(4, 70))


def test_writing_where_elements_share_memory_is_refused():
    target = torch.zeros(70, dtype=torch.float16, device="spyre")
    with pytest.raises(RuntimeError, match="single memory location"):
        target.expand(3, 70).copy_(torch.ones(3, 70, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="single memory location"):
        target[1:].copy_(target[:-1])


def test_a_tensor_copied_to_itself_is_unchanged():
    source = values((5, 70), torch.float16)
    there = source.to("spyre")
    there.copy_(there)
    there.copy_(there.view(5, 70))
    assert equal(there, source)


def test_negative_and_conjugate_bits():
    source = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
    there = source.to("spyre")
    negated = torch._neg_view(there)
    assert negated.is_neg()
    assert equal(negated, -source)
    assert equal(negated.clone(), -source)
    target = torch.zeros(2, 2, device="spyre")
    torch._neg_view(target).copy_(source)
    assert equal(target, -source)
    complex_cpu = torch.complex(source, 2 * source)
    target.copy_(complex_cpu.conj().imag)
    assert equal(target, -2 * source)
    assert equal(there.conj(), source)


def test_non_blocking_from_and_to_pinned_memory():
    source = values((300, 70), torch.float16).pin_memory()
    assert source.is_pinned()
    there = source.to("spyre", non_blocking=True)
    back = torch.empty(300, 70, dtype=torch.float16).pin_memory()
    back.copy_(there, non_blocking=True)
    torch.spyre.synchronize()
    assert torch.equal(back, source)


def test_non_blocking_from_a_temporary():
    tensors = [
        (values((100, 70), torch.float16, seed=i)).pin_memory().to("spyre", non_blocking=True)
        for i in range(20)
    ]
    for i, tensor in enumerate(tensors):
        assert equal(tensor, values((100, 70), torch.float16, seed=i))


def test_channels_last_and_other_dense_strides():
    source = values((2, 3, 5, 70), torch.float16).contiguous(memory_format=torch.channels_last)
    there = source.to("spyre")
    assert there.stride() == source.stride()
    assert there.is_contiguous(memory_format=torch.channels_last)
    assert equal(there, source)
    assert equal(there.contiguous(), source)
    strided = torch.empty_strided((3, 4, 70), (70, 210, 1), dtype=torch.float16, device="spyre")
    strided.copy_(values((3, 4, 70), torch.float16))
    assert equal(strided, values((3, 4, 70), torch.float16))


def test_empty_strided_with_gaps_and_overlaps():
    gaps = torch.empty_strided((3, 4), (10, 2), dtype=torch.float32, device="spyre")
    gaps.copy_(values((3, 4), torch.float32))
    assert equal(gaps, values((3, 4), torch.float32))
    shared = torch.empty_strided((3, 4), (0, 1), dtype=torch.float32, device="spyre")
    shared[0].copy_(torch.arange(4.0))
    assert equal(shared, torch.arange(4.0).expand(3, 4))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item(dtype):
    source = values((3, 70), dtype)
    assert source.to("spyre")[1, 69].item() == source[1, 69].item()
    with pytest.raises(RuntimeError, match="210 elements"):
        source.to("spyre").item()


def test_tolist_numpy_and_printing():
    there = torch.tensor([[1, 2], [3, 4]], device="spyre")
    assert there.tolist() == [[1, 2], [3, 4]]
    assert there.cpu().numpy().sum() == 10
    assert repr(there) == "tensor([[1, 2],\n        [3, 4]], device='spyre:0')"
    half = torch.tensor([1.5, float("inf")], dtype=torch.float16, device="spyre")
    assert repr(half) == "tensor([1.5000,    inf], device='spyre:0', dtype=torch.float16)"
    assert "spyre:0" in repr(torch.zeros(2000, 2, device="spyre"))
    assert repr(torch.nn.Parameter(half)).startswith("Parameter containing:")


def test_meta_and_to_empty():
    layer = torch.nn.Linear(4, 3, device="meta").to_empty(device="spyre")
    assert layer.weight.device.type == "spyre"
    assert torch.ones(3, device="spyre").to("meta").device.type == "meta"
