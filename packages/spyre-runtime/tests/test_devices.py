# SPDX-License-Identifier: Apache-2.0
"""Several devices in one process (AIU_WORLD_SIZE), in processes of their own."""

from __future__ import annotations

import pytest
import torch

TWO = {"AIU_WORLD_SIZE": "2"}


def test_two_devices(run_python):
    out = run_python(
        """
        import warnings
        warnings.simplefilter("ignore")
        assert torch.spyre.device_count() == 2
        x = torch.arange(210.0).view(3, 70).half().to("spyre:1")
        assert x.device.index == 1
        assert torch.spyre.current_device() == 0
        y = x.to("spyre:0")
        assert y.device.index == 0 and torch.equal(y.cpu(), x.cpu())
        z = torch.zeros(3, 70, device="spyre:1")
        z.copy_(y[:, :])
        assert torch.equal(z.cpu(), y.cpu().float())
        z.t()[5:9].copy_(torch.ones(4, 3, device="spyre:0"))
        assert z.cpu()[:, 5:9].eq(1).all()
        with torch.spyre.device(1):
            assert torch.spyre.current_device() == 1
            assert torch.ones(2, device="spyre").device.index == 1
            assert torch.spyre.Stream().device().index == 1
        assert torch.spyre.current_device() == 0
        torch.spyre.set_device(1)
        assert torch.ones(2, device="spyre").device.index == 1
        torch.spyre.set_device(0)
        try:
            x + y
        except RuntimeError as error:
            print("mixed:", error)
        try:
            torch.ones(1, device="spyre:2")
        except IndexError as error:
            print("index:", error)
        torch.spyre.synchronize()
        """,
        **TWO,
    )
    assert "mixed: Expected all tensors to be on the same device" in out
    assert "index 2 is out of range" in out


def test_wide_values_survive_between_devices(run_python):
    run_python(
        """
        import copy
        x = torch.tensor([1e6, -3e9, 2.0 ** -30, float("inf")]).to("spyre:0").half()
        y = x.to("spyre:1")
        a, b = x.float().cpu(), y.float().cpu()
        assert torch.equal(a, b), (a, b)
        """,
        **TWO,
    )


def test_saved_on_one_loaded_on_the_other(run_python):
    run_python(
        """
        x = torch.arange(210.0).view(3, 70).half().to("spyre:1")
        torch.save(x, "x.pt")
        assert torch.load("x.pt").device.index == 1
        y = torch.load("x.pt", map_location="spyre:0")
        assert y.device.index == 0 and torch.equal(y.cpu(), x.cpu())
        storage = x.untyped_storage()
        other = torch.UntypedStorage(storage.nbytes(), device="spyre:0").copy_(storage)
        assert other.tolist() == storage.tolist()
        """,
        **TWO,
    )


def test_backward_runs_on_each_device(run_python):
    run_python(
        """
        import warnings
        warnings.simplefilter("ignore")
        a = torch.ones(3, device="spyre:0", requires_grad=True)
        b = torch.ones(3, device="spyre:1", requires_grad=True)
        ((a * 2).to("spyre:1") * b * 3).sum().backward()
        assert a.grad.device.index == 0 and a.grad.tolist() == [6, 6, 6]
        assert b.grad.device.index == 1 and b.grad.tolist() == [6, 6, 6]
        """,
        **TWO,
    )


def test_seeds_of_each_device(run_python):
    run_python(
        """
        import warnings
        warnings.simplefilter("ignore")
        torch.spyre.manual_seed_all(3)
        a = torch.rand(9, device="spyre:0").cpu()
        b = torch.rand(9, device="spyre:1").cpu()
        assert torch.equal(a, b)
        with torch.spyre.device(1):
            torch.spyre.manual_seed(4)
        assert torch.spyre.initial_seed() == 3
        assert len(torch.spyre.get_rng_state_all()) == 2
        """,
        **TWO,
    )


def test_visible_devices(run_python):
    run_python(
        """
        assert torch.spyre.device_count() == 1
        assert torch.ones(2).to("spyre:0").cpu().sum() == 2
        """,
        AIU_WORLD_SIZE="3",
        SPYRE_DEVICES="2",
    )


@pytest.mark.parametrize("index", [5, 127, 200, 255, 256, 4000])
def test_indices_out_of_range_are_named_as_they_were_given(index):
    pattern = f"spyre device index {index} is out of range"
    for use in (torch.spyre.set_device, torch.spyre.synchronize, torch.spyre.Stream):
        for device in (index, f"spyre:{index}"):
            with pytest.raises(IndexError, match=pattern):
                use(device)
    with pytest.raises(IndexError, match=pattern), torch.spyre.device(f"spyre:{index}"):
        pass


@pytest.mark.parametrize("index", [128, 200, 254])
def test_indices_that_torch_device_has_wrapped(index):
    # torch.device keeps eight bits: 200 arrives as -56. From 256 on a valid index arrives.
    pattern = f"spyre device index {index - 256} .or {index}, wrapped by .*out of range"
    with pytest.raises(IndexError, match=pattern):
        torch.spyre.set_device(torch.device(f"spyre:{index}"))
    with pytest.raises(IndexError, match=pattern):
        torch.empty(1, device=f"spyre:{index}")
