# SPDX-License-Identifier: Apache-2.0
"""Storages: bytes, resizing, sharing, copying, saving and loading."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import spyre_runtime
import torch
from tensor_cases import DTYPES, FLOAT8_DTYPES, equal, values

pytestmark = pytest.mark.usefixtures("quiet_fallback")


def layout_of(tensor):
    return spyre_runtime._C.get_layout(tensor)


def test_nbytes_is_the_hosts():
    assert torch.zeros(3, 70, dtype=torch.float16, device="spyre").untyped_storage().nbytes() == 420
    assert torch.zeros(3, dtype=torch.uint8, device="spyre").untyped_storage().nbytes() == 3


@pytest.mark.parametrize("dtype", DTYPES + FLOAT8_DTYPES, ids=str)
def test_deepcopy_pickle_and_save(dtype, tmp_path):
    source = values((3, 70), dtype)
    there = source.to("spyre")
    for again in (
        copy.deepcopy(there),
        # PyTorch itself cannot unpickle float8 tensors outside torch.save, on any device.
        *(() if dtype in FLOAT8_DTYPES else (copy.copy(there), pickle.loads(pickle.dumps(there)))),
        there.clone(),
    ):
        assert again.device == there.device
        assert again.dtype == dtype
        assert equal(again, source)
    path = tmp_path / "x.pt"
    torch.save(there, path)
    for options in ({}, {"map_location": "spyre"}, {"mmap": True}, {"weights_only": True}):
        again = torch.load(path, **options)
        assert again.device.type == "spyre"
        assert equal(again, source)
    assert torch.load(path, map_location="cpu").device.type == "cpu"
    torch.save(source, path)
    assert equal(torch.load(path, map_location="spyre"), source)
    assert equal(torch.load(path, map_location=torch.device("spyre", 0), mmap=True), source)


def test_a_deep_copy_keeps_layout_and_values_beyond_float16():
    wide = torch.full((3, 70), 1e6).to("spyre").half()
    again = copy.deepcopy(wide)
    assert layout_of(again) == layout_of(wide)
    assert again.float().cpu()[0, 0] == pytest.approx(1e6, rel=2**-10)
    assert again.data_ptr() != wide.data_ptr()


def test_a_loaded_tensor_has_the_layout_of_a_new_one():
    source = values((3, 70), torch.float16)
    buffer = io.BytesIO()
    torch.save(source, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, map_location="spyre")
    assert equal(loaded, source)
    assert layout_of(loaded) == layout_of(source.to("spyre"))


def test_views_share_a_storage_after_saving_together():
    base = values((4, 70), torch.float16).to("spyre")
    buffer = io.BytesIO()
    torch.save([base, base[1:3]], buffer)
    buffer.seek(0)
    again, view = torch.load(buffer)
    view.zero_()
    assert equal(again[1:3], torch.zeros(2, 70, dtype=torch.float16))
    deep, deep_view = copy.deepcopy([base, base[1:3]])
    deep_view.zero_()
    assert equal(deep[1:3], torch.zeros(2, 70, dtype=torch.float16))


def test_modules_save_and_load(tmp_path):
    layer = torch.nn.Linear(70, 3).to("spyre")
    torch.save(layer.state_dict(), tmp_path / "m.pt")
    other = torch.nn.Linear(70, 3).to("spyre")
    other.load_state_dict(torch.load(tmp_path / "m.pt", weights_only=True))
    assert equal(other.weight.detach(), layer.weight.detach().cpu())
    meta = torch.nn.Linear(70, 3, device="meta")
    meta.load_state_dict(torch.load(tmp_path / "m.pt", mmap=True), assign=True)
    assert equal(meta.weight.detach(), layer.weight.detach().cpu())
    assert equal(copy.deepcopy(layer).bias.detach(), layer.bias.detach().cpu())


def test_untyped_storage_operations():
    storage = torch.UntypedStorage(20, device="spyre")
    assert storage.nbytes() == 20
    storage.fill_(7)
    assert storage.tolist() == [7] * 20
    storage[3] = 9
    assert storage[3] == 9
    assert storage.cpu().tolist()[:5] == [7, 7, 7, 9, 7]
    clone = storage.clone()
    assert clone.tolist() == storage.tolist()
    clone.resize_(30)
    assert clone.nbytes() == 30
    assert clone.tolist()[:20] == storage.tolist()
    clone.resize_(4)
    assert clone.tolist() == [7, 7, 7, 9]
    clone.resize_(0)
    assert clone.nbytes() == 0
    with pytest.raises(Exception, match="(?i)out of|resize|negative|range"):
        storage.resize_(-2)


def test_storage_of_a_tensor_as_bytes():
    source = values((3, 70), torch.float16)
    storage = source.to("spyre").untyped_storage()
    assert storage.cpu().tolist() == source.untyped_storage().tolist()
    assert storage[1] == source.untyped_storage()[1]
    target = torch.zeros(3, 70, dtype=torch.float16, device="spyre")
    target.untyped_storage().copy_(source.untyped_storage())
    assert equal(target, source)
    target.zero_()
    target.untyped_storage().copy_(storage)
    assert equal(target, source)


def test_raw_bytes_get_their_type_at_the_first_typed_use():
    source = values((3, 70), torch.float16)
    storage = torch.UntypedStorage(420, device="spyre")
    storage.copy_(source.untyped_storage())
    typed = torch.empty(0, dtype=torch.float16, device="spyre").set_(storage, 0, (3, 70), (70, 1))
    assert equal(typed, source)
    assert layout_of(typed) == layout_of(source.to("spyre"))
    typed.add_(1)
    assert equal(typed, source + 1)
    as_bytes = torch.empty(0, dtype=torch.uint8, device="spyre").set_(storage)
    assert equal(as_bytes, (source + 1).view(torch.uint8).flatten())


def test_raw_bytes_of_an_odd_count():
    storage = torch.UntypedStorage(7, device="spyre")
    storage.copy_(torch.arange(7, dtype=torch.uint8).untyped_storage())
    typed = torch.empty(0, dtype=torch.int16, device="spyre").set_(storage, 0, (3,), (1,))
    assert equal(typed, torch.arange(6, dtype=torch.uint8).view(torch.int16))
    assert storage.tolist() == list(range(7))


def test_set_variants():
    base = values((3, 70), torch.float16).to("spyre")
    other = torch.empty(0, dtype=torch.float16, device="spyre")
    other.set_(base)
    assert other.data_ptr() == base.data_ptr()
    assert equal(other, base.cpu())
    other.set_(base.untyped_storage(), 70, (2, 5), (70, 1))
    assert equal(other, base.cpu()[1:, :5])
    other.set_()
    assert other.numel() == 0
    assert other.device.type == "spyre"
    with pytest.raises(RuntimeError, match="device"):
        other.set_(torch.zeros(3, dtype=torch.float16).untyped_storage())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.uint8], ids=str)
def test_resize_keeps_contents(dtype):
    source = values((3, 70), dtype)
    there = source.to("spyre")
    there.resize_(2, 70)
    assert equal(there, source[:2])
    there.resize_(5, 90)
    assert there.shape == (5, 90)
    assert equal(there.flatten()[:210], source.flatten())
    there.resize_(0)
    assert there.numel() == 0
    there.resize_(3, 70)
    assert equal(there, source)
    fresh = torch.empty(0, dtype=dtype, device="spyre").resize_(4, 70)
    fresh.copy_(values((4, 70), dtype))
    assert equal(fresh, values((4, 70), dtype))
    assert layout_of(fresh) == layout_of(torch.empty(4, 70, dtype=dtype, device="spyre"))


def test_resize_of_a_view_and_memory_format():
    base = torch.arange(10.0).to("spyre")
    view = base[4:7]
    view.resize_(6)
    assert equal(view, torch.arange(4.0, 10.0))
    view.resize_(8)  # grows the shared storage
    assert equal(base, torch.arange(10.0))
    assert view.shape == (8,)
    image = torch.empty(0, device="spyre").resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)


def test_a_storage_freed_under_a_tensor_is_an_error():
    there = torch.ones(70, device="spyre")
    there.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="no memory|out of bounds"):
        there.cpu()


def test_data_swap_and_shared_parameters():
    first = torch.nn.Parameter(torch.ones(3, device="spyre"))
    first.data = torch.zeros(3, device="spyre")
    assert equal(first.detach(), torch.zeros(3))
    layer = torch.nn.Linear(3, 3)
    layer.other = layer.weight
    weight = layer.weight
    layer.to("spyre")
    assert layer.other is layer.weight is weight  # so tied weights and optimizers stay as they were
    assert weight.device.type == "spyre"
    layer.cpu()
    assert layer.weight is weight
    assert weight.device.type == "cpu"
    host = torch.nn.Parameter(torch.ones(3))
    host.data = torch.zeros(3, device="spyre")
    assert equal(host.detach(), torch.zeros(3))


def test_memory_is_counted_and_returned():
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    tensor = torch.empty(1000, 64, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory_allocated() >= before + 128_000
    assert torch.spyre.memory_reserved() >= torch.spyre.memory_allocated()
    assert torch.spyre.max_memory_allocated() >= torch.spyre.memory_allocated()
    del tensor
    assert torch.spyre.memory_allocated() == before
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before
    free, total = torch.spyre.mem_get_info()
    assert 0 < free <= total
    stats = torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.spyre.memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated()
    torch.spyre.empty_cache()
    torch.accelerator.empty_cache()
    assert "allocated_bytes" in torch.spyre.memory_summary()


def test_out_of_memory_is_pythons_error():
    with pytest.raises(torch.OutOfMemoryError, match="bytes"):
        torch.empty(1 << 45, dtype=torch.float16, device="spyre")
    assert torch.ones(3, device="spyre").sum().item() == 3


def test_totals_and_peaks_of_statistics() -> None:
    torch.spyre.reset_accumulated_memory_stats()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_stats()
    x = torch.ones(64, 64, device="spyre")
    y = torch.ones(64, 64, device="spyre")
    del x, y
    for stats in (torch.spyre.memory_stats(), torch.accelerator.memory_stats()):
        assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 2
        assert stats["allocation.all.peak"] == before["allocation.all.current"] + 2
        assert stats["allocated_bytes.all.allocated"] == 2 * 64 * 64 * 4
        assert stats["allocated_bytes.all.freed"] == 2 * 64 * 64 * 4
