# SPDX-License-Identifier: Apache-2.0
"""Arguments of every kind at the functions of torch.spyre: each works or says what was expected."""

import numpy as np
import pytest
import torch

S = torch.spyre

# Each takes a device, by any of its names.
TAKE_DEVICE = {
    "set_device": S.set_device,
    "current_stream": S.current_stream,
    "default_stream": S.default_stream,
    "synchronize": S.synchronize,
    "device": S.device,
    "Stream": S.Stream,
    "Event": S.Event,
    "exchange_device": S.exchange_device,
    "maybe_exchange_device": S.maybe_exchange_device,
    "get_device_name": S.get_device_name,
    "get_device_capability": S.get_device_capability,
    "get_rng_state": S.get_rng_state,
    "mem_get_info": S.mem_get_info,
    "memory_allocated": S.memory_allocated,
    "memory_reserved": S.memory_reserved,
    "memory_stats": S.memory_stats,
    "memory_summary": S.memory_summary,
    "reset_accumulated_memory_stats": S.reset_accumulated_memory_stats,
    "reset_peak_memory_stats": S.reset_peak_memory_stats,
}
GOOD = [
    0,
    np.int64(0),
    np.int8(0),
    "spyre",
    "spyre:0",
    torch.device("spyre"),
    torch.device("spyre:0"),
]
OUT_OF_RANGE = [1, np.int64(64), 2**31, 2**70, "spyre:1", torch.device("spyre", 7)]
OF_ANOTHER_KIND = ["cpu", "cuda:0", torch.device("cpu"), torch.device("meta")]
NO_DEVICE = [True, False, 0.0, b"spyre", [0], object(), torch.tensor(0)]


@pytest.mark.parametrize("name", TAKE_DEVICE)
@pytest.mark.parametrize("device", GOOD, ids=repr)
def test_a_device_goes_by_any_of_its_names(name, device):
    TAKE_DEVICE[name](device)


@pytest.mark.parametrize("name", TAKE_DEVICE)
def test_anything_else_is_refused(name):
    take = TAKE_DEVICE[name]
    for device in OUT_OF_RANGE:
        with pytest.raises(IndexError, match=r"out of range: 1 device is visible; choose an index"):
            take(device)
    for device in OF_ANOTHER_KIND:
        with pytest.raises(
            ValueError, match="expected a device of type spyre, found '(cpu|cuda:0|meta)'"
        ):
            take(device)
    for device in NO_DEVICE:
        with pytest.raises(
            TypeError, match="expected a device as torch.device, int, str or None, found"
        ):
            take(device)
    assert S.current_device() == 0


@pytest.mark.parametrize("change", [S.exchange_device, S.maybe_exchange_device])
def test_a_negative_index_changes_nothing(change):
    assert change(-1) == -1
    assert change(0) == 0


@pytest.mark.parametrize("value", [0, -1, 2**64 - 1, -(2**63), np.int64(7), True, torch.tensor(7)])
def test_seeds(value):
    expected = int(value) % 2**64
    for seed in (S.manual_seed, S.manual_seed_all, torch.accelerator.manual_seed):
        seed(value)
        assert S.initial_seed() == expected


@pytest.mark.parametrize("seed", [S.manual_seed, S.manual_seed_all])
def test_bad_seeds(seed):
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match=rf"seed {value} is out of range: choose one from"):
            seed(value)
    for value in (None, "seven", [1]):
        with pytest.raises((TypeError, ValueError), match="expected an int as seed, found"):
            seed(value)


@pytest.mark.parametrize("priority", [1, -1, 5, np.int64(1), 2**32, 2**40, -(2**70)])
def test_any_priority_but_0_is_high(priority):
    stream = S.Stream(priority=priority)
    assert stream.priority != 0
    assert 33 <= stream.id <= 64


@pytest.mark.parametrize(
    ("parts", "error", "text"),
    [
        ({"stream_id": 1}, TypeError, "all of stream_id, device_index and device_type"),
        ({"colour": 1}, TypeError, "found colour"),
        ({"stream_id": 65, "device_index": 0, "device_type": 20}, ValueError, "ids are 0 to 64"),
        ({"stream_id": -1, "device_index": 0, "device_type": 20}, ValueError, "ids are 0 to 64"),
        ({"stream_id": 1, "device_index": 3, "device_type": 20}, IndexError, "out of range"),
        ({"stream_id": 1, "device_index": 0, "device_type": 1}, ValueError, "device_type 20"),
        ({"stream_id": "1", "device_index": 0, "device_type": 20}, TypeError, "int as stream_id"),
    ],
)
def test_parts_of_a_stream_are_checked(parts, error, text):
    with pytest.raises(error, match=text):
        S.Stream(**parts)


def test_a_block_of_no_stream_changes_nothing():
    stream = S.Stream()
    assert S.stream(stream) is stream
    with stream:
        with S.stream(None):
            assert S.current_stream() == stream
        S.set_stream(None)
        assert S.current_stream() == stream


@pytest.mark.parametrize("value", [3, "spyre", object(), torch.device("spyre")])
def test_what_is_no_stream_is_refused(value):
    event = S.Event()
    for take in (S.stream, S.set_stream, event.record, event.wait):
        with pytest.raises(TypeError, match="expected a torch.Stream, found"):
            take(value)


@pytest.mark.parametrize("name", ["enable_timing", "blocking", "interprocess"])
def test_flags_of_events_are_bools(name):
    with pytest.raises(TypeError, match=f"expected a bool as {name}, found"):
        S.Event(**{name: 1})


def test_events_tell_what_they_are():
    event = S.Event()
    assert repr(event) == "torch.spyre.Event(device=spyre:0, not recorded)"
    event.record()
    event.synchronize()
    assert repr(event) == "torch.spyre.Event(device=spyre:0, reached)"


def test_times_are_measured_between_events_of_any_class():
    own = S.Event(enable_timing=True)
    generic = torch.Event("spyre", enable_timing=True)
    own.record()
    generic.record()
    S.synchronize()
    assert own.elapsed_time(generic) >= 0
    with pytest.raises(ValueError, match="not both made with enable_timing=True"):
        untimed = torch.Event("spyre")
        untimed.record()
        own.elapsed_time(untimed)
    with pytest.raises(ValueError, match="both events must be made with enable_timing=True"):
        own.elapsed_time(S.Event())
    with pytest.raises(TypeError, match="expected a torch.Event, found int"):
        own.elapsed_time(3)
    with pytest.raises(ValueError, match="from a spyre event to one of cpu"):
        own.elapsed_time(torch.Event("cpu"))


def test_a_name_and_a_capability():
    assert S.get_device_name() == S.get_device_name("spyre:0") != ""
    assert torch.float16 in S.get_device_capability()["supported_dtypes"]
    assert S.is_bf16_supported()
    assert S.can_device_access_peer(0, 0) is False
