# SPDX-License-Identifier: Apache-2.0
"""Streams, events and device guards, as torch.spyre and as torch.accelerator show them."""

from __future__ import annotations

import threading

import pytest
import torch


def test_ids_are_dealt_round_robin_from_two_pools():
    low = [torch.spyre.Stream() for _ in range(33)]
    assert {s.id for s in low} == set(range(1, 33))
    assert low[32].id == low[0].id
    high = [torch.spyre.Stream(priority=-3) for _ in range(32)]
    assert {s.id for s in high} == set(range(33, 65))
    assert {s.priority for s in low} == {0}
    assert 0 not in {s.priority for s in high}


@pytest.mark.parametrize("device", [None, 0, "spyre", "spyre:0", torch.device("spyre", 0)])
def test_device_is_a_method(device):
    assert torch.spyre.Stream(device).device() == torch.device("spyre", 0)
    assert torch.spyre.current_stream(device).id == 0
    assert torch.spyre.default_stream(device).id == 0


def test_id_and_priority_are_read_only():
    stream = torch.spyre.Stream()
    with pytest.raises(AttributeError):
        stream.id = 3
    with pytest.raises(AttributeError):
        stream.priority = 1


def test_bad_arguments():
    with pytest.raises(IndexError, match="index 7 is out of range"):
        torch.spyre.Stream(7)
    with pytest.raises(IndexError, match="index 3 is out of range"):
        torch.spyre.current_stream("spyre:3")
    with pytest.raises(ValueError, match="type spyre"):
        torch.spyre.Stream("cpu")
    with pytest.raises(TypeError, match="float"):
        torch.spyre.Stream(1.5)
    with pytest.raises(TypeError, match="priority"):
        torch.spyre.Stream(priority="high")


def test_a_stream_is_a_context_manager():
    stream = torch.spyre.Stream()
    assert torch.spyre.stream(stream) is stream
    with torch.spyre.stream(stream):
        assert torch.spyre.current_stream() == stream
        assert torch.spyre.current_stream().id == stream.id
        inner = torch.spyre.Stream()
        with inner:
            assert torch.spyre.current_stream().id == inner.id
            x = torch.randn(100, device="spyre", dtype=torch.float16)
        assert torch.spyre.current_stream() == stream
    assert torch.spyre.current_stream().id == 0
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    stream.synchronize()
    assert stream.query() is True
    assert x.shape == (100,)
    with pytest.raises(ZeroDivisionError), stream:
        _ = 1 / 0
    assert torch.spyre.current_stream().id == 0


def test_work_of_one_stream_waits_for_another():
    source = torch.arange(64.0).half()
    first, second = torch.spyre.Stream(), torch.spyre.Stream()
    with first:
        x = source.to("spyre")
        y = x.clone()
    second.wait_stream(first)
    with second:
        z = y.clone()
    event = second.record_event()
    event.synchronize()
    assert event.query()
    y.record_stream(second)
    del x, y
    torch.spyre.current_stream().wait_event(event)
    assert torch.equal(z.cpu(), source)


def test_events():
    start, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
    assert start.query()
    start.record()
    torch.ones(300, 300).to("spyre")
    end.record(torch.spyre.current_stream())
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    with pytest.raises((ValueError, RuntimeError), match="enable_timing"):
        torch.spyre.Event().elapsed_time(end)
    with pytest.raises(NotImplementedError, match="processes"):
        torch.spyre.Event(interprocess=True)
    generic = torch.Event("spyre")
    generic.record()
    generic.wait()
    generic.synchronize()


def test_generic_streams_are_the_same_ones():
    assert torch.accelerator.current_accelerator() == torch.device("spyre")
    stream = torch.spyre.Stream()
    torch.accelerator.set_stream(stream)
    try:
        assert torch.accelerator.current_stream() == stream
        assert torch.spyre.current_stream() == stream
    finally:
        torch.accelerator.set_stream(torch.spyre.default_stream())
    assert isinstance(torch.Stream("spyre"), torch.Stream)
    torch.accelerator.synchronize()
    assert hash(stream) == hash(
        torch.Stream(stream_id=stream.id, device_index=0, device_type=stream.device_type)
    )
    assert "id=" in repr(stream)


def test_synchronize():
    torch.spyre.synchronize()
    torch.spyre.synchronize("spyre:0")
    torch.spyre.synchronize(0)
    torch.spyre.synchronize(torch.device("spyre"))
    with pytest.raises(IndexError):
        torch.spyre.synchronize(5)


def test_the_current_stream_is_per_thread():
    stream = torch.spyre.Stream()
    seen = []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(torch.spyre.current_stream().id))
        thread.start()
        thread.join()
    assert seen == [0]


def test_many_threads_and_streams():
    errors = []

    def work(seed):
        try:
            with torch.spyre.Stream():
                for i in range(20):
                    x = torch.full((33, 70), float(seed + i)).half()
                    y = x.to("spyre").clone()
                    assert torch.equal(y.cpu(), x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_device_management():
    assert torch.spyre.is_available() is True
    assert torch.spyre.device_count() == 1
    torch.spyre.set_device(0)
    torch.spyre.set_device("spyre:0")
    assert torch.spyre.current_device() == 0
    with torch.spyre.device(0), torch.spyre.device("spyre"), torch.spyre.device(None):
        assert torch.spyre.current_device() == 0
    with torch.spyre.device_of(torch.ones(2)), torch.device("spyre"):
        assert torch.ones(2).device == torch.device("spyre:0")
    torch.ones(1, device="spyre")
    assert torch.spyre.is_initialized() is True
    assert not hasattr(torch.spyre, "get_device_properties")
    for bad in (1, -1, 99):
        with pytest.raises(IndexError, match=str(bad)):
            torch.spyre.set_device(bad)
    with pytest.raises(TypeError):
        torch.spyre.set_device(1.0)
    for bad in ("spyre:1", "spyre:77"):
        with pytest.raises(IndexError, match="out of range"):
            torch.empty(1, device=bad)
        with pytest.raises(IndexError, match="out of range"):
            torch.ones(1).to(bad)


def test_properties():
    import spyre_runtime

    found = spyre_runtime.get_device_properties()
    assert found.multi_processor_count >= 1
    assert found.total_memory > 2**30
    assert found.type == "spyre"
    capability = torch.accelerator.get_device_capability()
    assert torch.float16 in capability["supported_dtypes"]
    assert torch.float64 not in capability["supported_dtypes"]


def test_leaving_a_stream_that_was_not_entered_raises() -> None:
    stream = torch.spyre.Stream()
    with pytest.raises(RuntimeError, match="without having been entered"):
        stream.__exit__(None, None, None)
    with stream:
        assert torch.spyre.current_stream() == stream
    with pytest.raises(RuntimeError, match="without having been entered"):
        stream.__exit__(None, None, None)


@pytest.mark.parametrize("method", ["wait_event", "wait_stream", "record_event"])
def test_streams_take_only_events_and_streams(method: str) -> None:
    with pytest.raises(TypeError, match="found int"):
        getattr(torch.spyre.Stream(), method)(5)


def test_record_event_takes_and_gives_events() -> None:
    stream = torch.spyre.Stream()
    event = torch.spyre.Event()
    assert stream.record_event(event) is event
    assert isinstance(stream.record_event(), torch.spyre.Event)
    event.synchronize()
    stream.wait_event(event)
    stream.wait_stream(torch.spyre.default_stream())
    assert event.query()


def test_an_error_of_queued_work_is_told_by_the_event_after_it() -> None:
    bad = torch.tensor([9], device="spyre")
    event = torch.spyre.Event()
    torch.ones(3, device="spyre")[bad]
    event.record()
    torch.spyre.empty_cache()  # waits for the device, and takes no error
    with pytest.raises(IndexError, match="index 9 is out of range for a size of 3"):
        event.synchronize()
    event.synchronize()
    torch.spyre.synchronize()


def test_device_times_in_the_profiler() -> None:
    x = torch.randn(300, 300, dtype=torch.float16, device="spyre")
    with torch.autograd.profiler.profile(use_device="spyre") as profile:
        x @ x
    assert any(row.device_time_total > 0 for row in profile.key_averages())
