# SPDX-License-Identifier: Apache-2.0
"""Streams have the ids, attributes and order of the API page."""

import itertools
import threading

import pytest
import torch


def test_the_default_stream_has_id_0():
    stream = torch.spyre.default_stream()
    assert (stream.id, stream.priority) == (0, 0)
    assert torch.spyre.current_stream().id == 0
    assert torch.spyre.default_stream(0).id == 0
    assert torch.spyre.current_stream(torch.device("spyre:0")).id == 0


def test_ids_go_round_in_two_pools():
    low = [torch.spyre.Stream().id for _ in range(64)]
    high = [torch.spyre.Stream(priority=-1).id for _ in range(64)]
    assert set(low) == set(range(1, 33))
    assert set(high) == set(range(33, 65))
    assert low[:32] == low[32:]
    assert all(after == (before % 32) + 1 for before, after in itertools.pairwise(low))
    assert torch.spyre.Stream(priority=5).priority != 0
    assert torch.spyre.Stream(priority=0).priority == 0


@pytest.mark.parametrize("device", [None, 0, "spyre", "spyre:0", torch.device("spyre", 0)])
def test_a_stream_takes_any_spelling_of_its_device(device):
    stream = torch.spyre.Stream(device)
    assert stream.device() == torch.device("spyre:0")


@pytest.mark.parametrize("device", [3, "spyre:9", "cpu", "nonsense"])
def test_a_stream_of_another_device_is_refused(device):
    with pytest.raises((IndexError, ValueError)) as raised:
        torch.spyre.Stream(device)
    assert str(device).rpartition(":")[2] in str(raised.value)
    assert "privateuse" not in str(raised.value)


@pytest.mark.parametrize("name", ["id", "priority"])
def test_attributes_are_read_only(name):
    with pytest.raises(AttributeError):
        setattr(torch.spyre.Stream(), name, 3)


def test_with_makes_a_stream_current_for_the_block():
    a, b = torch.spyre.Stream(), torch.spyre.Stream()
    with torch.spyre.stream(a):
        assert torch.spyre.current_stream().id == a.id
        with b:
            assert torch.spyre.current_stream().id == b.id
        assert torch.spyre.current_stream().id == a.id
    assert torch.spyre.current_stream().id == 0
    assert torch.spyre.stream(a) is a


def test_an_exception_in_the_block_puts_the_stream_back():
    with pytest.raises(KeyError), torch.spyre.Stream():
        raise KeyError
    assert torch.spyre.current_stream().id == 0


def test_the_current_stream_belongs_to_the_thread():
    seen = []
    with torch.spyre.Stream():
        thread = threading.Thread(target=lambda: seen.append(torch.spyre.current_stream().id))
        thread.start()
        thread.join()
    assert seen == [0]


def test_work_on_a_stream_is_done_after_synchronize():
    stream = torch.spyre.Stream()
    x = torch.ones(512, 512, device="spyre")
    torch.spyre.synchronize()
    with torch.spyre.stream(stream):
        for _ in range(20):
            x = x + 1
    stream.synchronize()
    assert stream.query() is True
    assert x.sum().item() == 21 * 512 * 512


@pytest.mark.parametrize("device", [None, 0, "spyre", "spyre:0", torch.device("spyre:0")])
def test_synchronize_takes_any_spelling(device):
    torch.spyre.synchronize(device)


def test_synchronize_of_a_missing_device_is_an_error():
    with pytest.raises((IndexError, RuntimeError, ValueError), match="9"):
        torch.spyre.synchronize("spyre:9")


def test_one_stream_waits_for_another_by_event():
    producer, consumer = torch.spyre.Stream(), torch.spyre.Stream()
    event = torch.spyre.Event()
    with torch.spyre.stream(producer):
        x = torch.zeros(256, 256, device="spyre")
        for _ in range(10):
            x += 1
        event.record()
    with torch.spyre.stream(consumer):
        event.wait()
        y = x * 2
    torch.spyre.synchronize()
    assert event.query()
    assert torch.equal(y.cpu(), torch.full((256, 256), 20.0))


def test_results_do_not_depend_on_the_stream():
    a = torch.randn(64, 128, dtype=torch.float16)
    b = torch.randn(128, 96, dtype=torch.float16)

    def work():
        return torch.softmax(a.to("spyre") @ b.to("spyre"), -1).cpu()

    expected = work()
    for stream in (torch.spyre.Stream(), torch.spyre.Stream(priority=1)):
        with stream:
            assert torch.equal(work(), expected)


SIDE_STREAM_CASES = ("a block", "an event", "two blocks", "a block last")


def _on_streams(case, side):
    """A function that uses streams, to be compiled, with torch.spyre.stream taken for granted."""

    def a_block(x):
        side.wait_stream(torch.accelerator.current_stream())
        with side:
            y = torch.relu(x) * 2
        torch.accelerator.current_stream().wait_stream(side)
        return y + 1

    def an_event(x):
        y = torch.relu(x) * 2
        event = torch.Event("spyre")
        event.record()
        z = y @ y
        event.wait()
        return z + 1

    def two_blocks(x):
        with side:
            y = x * 2
        side.synchronize()
        z = torch.softmax(y, -1)
        with side:
            w = z + y
        side.synchronize()
        return w * 3

    def a_block_last(x):
        y = x + 1
        torch.spyre.synchronize()
        with side:
            return (y * 2).sum(0)

    return dict(zip(SIDE_STREAM_CASES, (a_block, an_event, two_blocks, a_block_last), strict=True))[
        case
    ]


@pytest.mark.parametrize("case", SIDE_STREAM_CASES)
@pytest.mark.parametrize("backend", ["spyre", "inductor"])
def test_streams_inside_compiled_functions(case, backend):
    function = _on_streams(case, torch.spyre.Stream())
    x = torch.randn(64, 64, dtype=torch.float16, device="spyre")
    expected = function(x)
    torch.spyre.synchronize()
    got = torch.compile(function, backend=backend)(x)
    torch.spyre.synchronize()
    assert torch.spyre.current_stream().id == 0
    torch.testing.assert_close(got.cpu(), expected.cpu(), rtol=2e-2, atol=2e-2)
