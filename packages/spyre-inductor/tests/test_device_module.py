# SPDX-License-Identifier: Apache-2.0
"""`torch.spyre` inside compiled functions: answered or made part of the graph, without a break."""

from __future__ import annotations

import pytest
import torch
from helpers import compare
from spyre_runtime import devices


def make_event(x):
    event = torch.spyre.Event()
    y = x + 1
    event.record()
    event.wait()
    return y * 2


def make_stream(x):
    side = torch.spyre.Stream()
    side.wait_stream(torch.spyre.current_stream())
    with torch.spyre.stream(side):
        y = x + 1
    torch.spyre.current_stream().wait_stream(side)
    return y * 2


def record_on_a_stream(x):
    side = torch.spyre.Stream(priority=1)
    with side:
        y = x + 1
        done = side.record_event()
    torch.spyre.current_stream().wait_event(done)
    return y * 2


def synchronize(x):
    y = x + 1
    torch.spyre.synchronize()
    torch.spyre.synchronize(0)
    return y * 2


def on_a_device(x):
    with torch.spyre.device(0):
        return x + torch.ones(4, device="spyre")


QUERIES = {
    "is_available": lambda x: x + int(torch.spyre.is_available()),
    "is_initialized": lambda x: x + int(torch.spyre.is_initialized()),
    "is_bf16_supported": lambda x: x + int(torch.spyre.is_bf16_supported()),
    "device_count": lambda x: x + torch.spyre.device_count(),
    "current_device": lambda x: x + torch.spyre.current_device(),
    "name": lambda x: x + len(torch.spyre.get_device_name()),
}
FUNCTIONS = {
    each.__name__: each
    for each in (make_event, make_stream, record_on_a_stream, synchronize, on_a_device)
} | QUERIES


@pytest.mark.parametrize("backend", ["spyre", "inductor", "eager"])
@pytest.mark.parametrize("fn", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_no_graph_break(fn, backend):
    x = torch.arange(4.0)
    result = torch.compile(fn, backend=backend, fullgraph=True)(x.to("spyre"))
    compare(result, fn(x.to("spyre")).cpu(), 0)


def test_several_functions_with_streams_of_their_own():
    compiled = [torch.compile(fn, backend="spyre") for fn in FUNCTIONS.values()]
    for size in (4, 4, 1):
        x = torch.arange(4.0)[:size]
        for fn, original in zip(compiled, FUNCTIONS.values(), strict=True):
            compare(fn(x.to("spyre")), original(x.to("spyre")).cpu(), 0)


def test_another_current_device_compiles_again(monkeypatch):
    x = torch.arange(4.0, device="spyre")
    fn = torch.compile(QUERIES["current_device"], backend="eager", fullgraph=True)
    assert fn(x).tolist() == [0, 1, 2, 3]
    monkeypatch.setattr(devices.native(), "current_device", lambda: 5)
    assert fn(x).tolist() == [5, 6, 7, 8]
