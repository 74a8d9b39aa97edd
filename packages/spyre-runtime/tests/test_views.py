# SPDX-License-Identifier: Apache-2.0
"""Views share memory, whatever made them; bytes of one dtype can be looked at as another's."""

from __future__ import annotations

import pytest
import torch
from tensor_cases import equal, values

pytestmark = pytest.mark.usefixtures("quiet_fallback")

VIEWS = {
    "transpose": lambda t: t.transpose(0, 1),
    "permute": lambda t: t.permute(2, 0, 1),
    "slice": lambda t: t[1:, ::2, 3:66],
    "select": lambda t: t[1, 2],
    "narrow": lambda t: t.narrow(2, 5, 60),
    "view": lambda t: t.view(-1, 35),
    "flatten": lambda t: t.flatten(),
    "unflatten": lambda t: t.unflatten(2, (7, 10)),
    "squeeze": lambda t: t[:, 1:2].squeeze(1),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "diagonal": lambda t: t.diagonal(dim1=0, dim2=2),
    "unfold": lambda t: t.unfold(2, 10, 10),
    "as_strided": lambda t: t.as_strided((2, 3), (7, 2), 5),
    "chunk": lambda t: t.chunk(2, dim=2)[1],
    "alias": lambda t: torch.ops.aten.alias(t),
    "detach": lambda t: t.detach(),
    "real": lambda t: t.real,
    "movedim": lambda t: t.movedim(0, 2),
    "T": lambda t: t.mT,
    "reshape": lambda t: t.reshape(6, 70),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory(name, dtype):
    view = VIEWS[name]
    source = values((2, 3, 70), dtype)
    there = source.to("spyre")
    seen = view(there)
    assert seen.stride() == view(source).stride()
    assert seen.storage_offset() == view(source).storage_offset()
    assert equal(seen, view(source))
    new = values(tuple(seen.shape), dtype, seed=3)
    seen.copy_(new)
    view(source).copy_(new)
    assert equal(there, source)
    seen.zero_()
    view(source).zero_()
    assert equal(there, source)


@pytest.mark.parametrize("dtype", [torch.int16, torch.bfloat16, torch.uint8, torch.int32], ids=str)
def test_bits_read_as_another_dtype(dtype):
    source = values((3, 70), torch.float16)
    assert equal(source.to("spyre").view(dtype), source.view(dtype))
    assert equal(source.to("spyre").view(dtype)[1:, 3:], source.view(dtype)[1:, 3:])
    assert equal(source.to("spyre").view(dtype).clone(), source.view(dtype))


def test_bits_written_as_another_dtype():
    source = values((3, 70), torch.float16)
    there = source.to("spyre")
    there.view(torch.int16)[1, 2:5] = 0x3C00
    source.view(torch.int16)[1, 2:5] = 0x3C00
    assert equal(there, source)
    there.view(torch.uint8).zero_()
    assert equal(there, torch.zeros_like(source))
    there.view(torch.int16).add_(0x3C00)
    assert equal(there, torch.ones_like(source))


def test_bits_written_elsewhere_leave_wide_values_alone():
    wide = torch.tensor([1e6, 2.0, 3.0]).to("spyre").half()
    wide.view(torch.int16)[1] = 0x3C00
    assert wide.float().cpu()[0] == pytest.approx(1e6, rel=2**-10)
    assert wide.cpu().tolist()[1:] == [1.0, 3.0]


def test_many_scattered_bits_written():
    source = values((50, 70), torch.float16)
    there = source.to("spyre")
    there.view(torch.int16)[:, ::3] = 0x3C00
    source.view(torch.int16)[:, ::3] = 0x3C00
    assert equal(there, source)
    wide = torch.full((200,), 1e6).to("spyre").half()
    wide.view(torch.int16)[::2] = 0x3C00
    assert wide.float().cpu()[1::2].tolist() == pytest.approx([1e6] * 100, rel=2**-10)
    assert wide.cpu()[::2].tolist() == [1.0] * 100


def test_wider_and_narrower_items():
    source = torch.arange(12, dtype=torch.int64)
    there = source.to("spyre")
    assert equal(there.view(torch.int32), source.view(torch.int32))
    assert equal(there.view(torch.float32), source.view(torch.float32))
    assert equal(there.view(torch.int32).view(torch.int64), source)


def test_computing_on_reinterpreted_bits():
    source = values((4, 70), torch.float16)
    there = source.to("spyre")
    assert equal(there.view(torch.int16) + 1, source.view(torch.int16) + 1)


def test_complex_views_are_refused():
    pairs = torch.zeros(3, 2, device="spyre")
    with pytest.raises(NotImplementedError, match="complex"):
        torch.view_as_complex(pairs)


def test_inplace_ops_through_views_count_versions():
    there = torch.zeros(3, 4, device="spyre")
    view = there[1]
    before = there._version
    view.add_(1)
    assert there._version == before + 1
    assert equal(there[1], torch.ones(4))


def test_view_errors_are_those_of_the_cpu():
    there = torch.zeros(3, 4, device="spyre")
    with pytest.raises(RuntimeError, match="invalid for input of size 12"):
        there.view(5, 5)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        there.t().view(12)
    with pytest.raises(RuntimeError, match="out of bounds"):
        there.as_strided((100,), (1,))


def test_views_of_one_place_are_set_to_each_other():
    there = torch.zeros(3, 4, device="spyre")
    assert there.t().is_set_to(there.t())
    assert there[1].is_set_to(there[1])
    assert not there[1].is_set_to(there[2])
    assert not there.is_set_to(there.clone())
