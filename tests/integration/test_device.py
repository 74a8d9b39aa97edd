# SPDX-License-Identifier: Apache-2.0
"""Device management, random numbers and the device interface behave as the API page says."""

import pytest
import torch
import torch_spyre

TWO = {"AIU_WORLD_SIZE": "2"}


def test_questions_about_devices_open_none(python):
    python("""
        import torch
        assert torch.spyre.is_available() is True
        assert torch.spyre.device_count() == 1
        assert torch.spyre.current_device() == 0
        assert torch.spyre.is_initialized() is False
        torch.empty(1, device="spyre")
        assert torch.spyre.is_initialized() is True
    """)


@pytest.mark.parametrize("index", [1, 7, -1, 10**6])
def test_set_device_out_of_range_names_the_index_and_the_count(index):
    with pytest.raises((IndexError, RuntimeError, ValueError), match=str(index)) as caught:
        torch.spyre.set_device(index)
    assert "1" in str(caught.value)
    assert torch.spyre.current_device() == 0


def test_a_tensor_on_a_missing_device_is_an_error():
    with pytest.raises((IndexError, RuntimeError), match="5"):
        torch.empty(1, device="spyre:5")


def test_two_devices_keep_tensors_apart(python):
    python(
        """
        import torch
        assert torch.spyre.device_count() == 2
        a = torch.ones(3, device="spyre:0")
        b = torch.ones(3, device="spyre:1")
        assert (a.device.index, b.device.index) == (0, 1)
        assert (b + b).device.index == 1
        assert torch.equal(a.to("spyre:1"), b)
        try:
            a + b
        except RuntimeError as error:
            assert "same device" in str(error)
        else:
            raise AssertionError("mixed devices were added")
        torch.spyre.set_device(1)
        assert torch.spyre.current_device() == 1
        assert torch.ones(1, device="spyre").device.index == 1
        with torch.spyre.device(0):
            assert torch.spyre.current_device() == 0
        assert torch.spyre.current_device() == 1
        f = torch.compile(lambda x: x * 2 + 1, backend="spyre")
        assert f(b).device.index == 1 and f(b).sum().item() == 9
        assert f(a).device.index == 0 and f(a).sum().item() == 9
        """,
        **TWO,
    )


def test_visible_devices_are_a_selection(python):
    python(
        """
        import torch
        assert torch.spyre.device_count() == 1
        torch.ones(1, device="spyre:0")
        """,
        SPYRE_DEVICES="1",
        **TWO,
    )


def test_properties_belong_to_the_interface_alone():
    from torch_spyre.device.interface import SpyreDeviceProperties, SpyreInterface

    assert not hasattr(torch.spyre, "get_device_properties")
    properties = SpyreInterface.get_device_properties("spyre:0")
    assert isinstance(properties, SpyreDeviceProperties)
    assert properties.multi_processor_count == 32


def test_seeds_make_random_numbers_repeat():
    def draw():
        return torch.randn(100, device="spyre").cpu()

    for seed in (
        torch.spyre.manual_seed,
        torch.spyre.manual_seed_all,
        torch.manual_seed,
        torch.accelerator.manual_seed,
        torch.accelerator.manual_seed_all,
    ):
        seed(42)
        first, second = draw(), draw()
        assert not torch.equal(first, second)
        seed(42)
        assert torch.equal(draw(), first), seed
        seed(43)
        assert not torch.equal(draw(), first), seed


def test_manual_seed_is_for_the_current_device_and_all_for_all(python):
    python(
        """
        import torch
        def draw(index):
            return torch.rand(8, device=f"spyre:{index}").cpu()
        torch.spyre.manual_seed_all(1)
        first = [draw(0), draw(1)]
        torch.spyre.manual_seed_all(1)
        assert torch.equal(draw(0), first[0]) and torch.equal(draw(1), first[1])
        torch.spyre.manual_seed_all(1)
        torch.spyre.set_device(1)
        draw(1)
        torch.spyre.manual_seed(1)
        assert torch.equal(draw(1), first[1])
        """,
        **TWO,
    )


def test_random_state_can_be_kept_and_put_back():
    torch.spyre.manual_seed(7)
    state = torch.spyre.get_rng_state()
    first = torch.rand(16, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.rand(16, device="spyre").cpu(), first)


def test_the_accelerator_api_sees_the_device():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "spyre"
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()


def test_memory_is_counted():
    torch.spyre.synchronize()
    before = torch.accelerator.memory_allocated()
    x = torch.zeros(1024, 1024, dtype=torch.float16, device="spyre")
    assert torch.accelerator.memory_allocated() - before >= 2 << 20
    del x
    torch.spyre.synchronize()
    assert torch.accelerator.memory_allocated() == before
    torch.accelerator.empty_cache()


def test_downcast_warning_is_a_switch():
    was = torch_spyre._C.get_downcast_warning()
    try:
        torch_spyre._C.set_downcast_warning(False)
        assert torch_spyre._C.get_downcast_warning() is False
        torch_spyre._C.set_downcast_warning(True)
        assert torch_spyre._C.get_downcast_warning() is True
    finally:
        torch_spyre._C.set_downcast_warning(was)


DOWNCAST = """
    import torch, warnings
    x = torch.randn(8, 8, device="spyre")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.spyre.synchronize()
        x + x
        assert not [w for w in caught if "float16" in str(w.message)], "pointwise fp32 is exact"
        x @ x
    print(len([w for w in caught if "float32" in str(w.message)]))
"""


@pytest.mark.parametrize(
    ("setting", "count"), [({}, "1"), ({"TORCH_SPYRE_DOWNCAST_WARN": "0"}, "0")]
)
def test_float32_products_warn_unless_told_not_to(python, setting, count):
    assert python(DOWNCAST, **setting).out.strip() == count


def test_default_dtype_is_float16_in_practice():
    """The page's "default dtype" is the one to use; factories keep PyTorch's default."""
    assert torch.randn(1, device="spyre").dtype == torch.float32
    layout = torch_spyre._C.get_spyre_tensor_layout(
        torch.randn(4, 128, dtype=torch.float16, device="spyre")
    )
    assert layout.device_dtype == torch_spyre._C.DataFormats.SEN169_FP16
