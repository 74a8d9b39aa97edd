# SPDX-License-Identifier: Apache-2.0
"""Layouts as the API page shows them, on tensors of the device."""

import pytest
import torch
from torch_spyre._C import (
    DataFormats,
    SpyreTensorLayout,
    get_spyre_tensor_layout,
    set_spyre_tensor_layout,
)


def test_the_page_s_tensor_has_the_page_s_layout():
    x = torch.randn(4, 128, dtype=torch.float16, device="spyre")
    layout = get_spyre_tensor_layout(x)
    assert layout.device_size == [4, 2, 64]
    assert layout.stride_map == [128, 64, 1]
    assert layout.device_dtype == DataFormats.SEN169_FP16
    assert layout.elems_per_stick() == 64


def test_both_constructors_agree():
    automatic = SpyreTensorLayout(host_size=[4, 128], dtype=torch.float16)
    explicit = SpyreTensorLayout(
        device_size=[4, 2, 64], stride_map=[128, 64, 1], device_dtype=DataFormats.SEN169_FP16
    )
    assert automatic == explicit
    assert automatic == get_spyre_tensor_layout(
        torch.empty(4, 128, dtype=torch.float16, device="spyre")
    )


@pytest.mark.parametrize(
    ("dtype", "fmt", "per_stick"),
    [
        (torch.float16, "SEN169_FP16", 64),
        (torch.bfloat16, "SEN169_FP16", 64),
        (torch.float32, "IEEE_FP32", 32),
        (torch.bool, "SEN169_FP16", 64),
        (torch.int8, "SENINT8", 128),
        (torch.int64, "IEEE_INT64", 16),
        (torch.uint8, "SENUINT32", 32),
        (torch.float8_e4m3fn, "SEN143_FP8", 128),
        (torch.float8_e5m2fnuz, "SEN152_FP8", 128),
    ],
)
def test_each_dtype_has_its_format(dtype, fmt, per_stick):
    layout = get_spyre_tensor_layout(torch.empty(3, 5, dtype=dtype, device="spyre"))
    assert layout.device_dtype == getattr(DataFormats, fmt)
    assert layout.elems_per_stick() == per_stick == layout.device_dtype.elems_per_stick()


@pytest.mark.parametrize(
    "name",
    ["SEN169_FP16", "IEEE_FP32", "IEEE_FP16", "BFLOAT16", "SEN143_FP8", "SEN152_FP8", "SENINT8"],
)
def test_the_page_s_formats_exist(name):
    assert getattr(DataFormats, name).elems_per_stick() in (32, 64, 128)


def test_another_layout_holds_the_same_values():
    host = torch.randn(512, 256).half()
    x = torch.empty(512, 256, dtype=torch.float16, device="spyre")
    generic = SpyreTensorLayout([512, 256], [256, 1], torch.float16, [0, 1])
    assert generic.device_size == [4, 512, 64]
    set_spyre_tensor_layout(x, generic)
    assert get_spyre_tensor_layout(x) == generic
    x.copy_(host)
    plain = host.to("spyre")
    assert torch.equal(x.cpu(), plain.cpu())
    assert torch.equal((x + x).cpu(), (plain + plain).cpu())
    held = plain.cpu().float()[7:100, 3:]
    torch.testing.assert_close(
        x[7:100, 3:].float().t().sum(0).cpu(), held.t().sum(0), rtol=1e-5, atol=1e-5
    )
    f = torch.compile(lambda t: torch.softmax(t * 2, -1), backend="spyre")
    # Sums run in the order of memory, so a result may round to the neighbouring number.
    torch.testing.assert_close(f(x).cpu(), f(plain).cpu(), rtol=2**-9, atol=0)


def test_only_the_order_of_sums_depends_on_the_layout():
    """Where no sum rounds, every layout gives the same bits; see docs/design/0001."""
    host = torch.randint(-8, 9, (96, 256)).half()
    plain = host.to("spyre")
    f = torch.compile(lambda t: (t.sum(-1), t.t().sum(-1), t.amax(-1), t.t() @ t), backend="spyre")
    calls = f, lambda t: (t.sum(-1), t.mean(0), t.amax(0), t @ t.t(), t.exp(), t.argmax(-1))
    for order in ([0, 1], [1, 0]):
        x = torch.empty(96, 256, dtype=torch.float16, device="spyre")
        layout = SpyreTensorLayout([96, 256], [256, 1], torch.float16, order)
        set_spyre_tensor_layout(x, layout)
        x.copy_(host)
        for call in calls:
            for actual, expected in zip(call(x), call(plain), strict=True):
                assert torch.equal(actual.cpu(), expected.cpu())


def test_views_share_the_layout_of_their_storage():
    x = torch.empty(4, 128, dtype=torch.float16, device="spyre")
    layout = get_spyre_tensor_layout(x)
    for view in (x.t(), x[1:], x.view(512), x.detach()):
        assert get_spyre_tensor_layout(view) == layout


@pytest.mark.parametrize(
    "arguments",
    [
        {"device_size": [4, 2, 64], "stride_map": [128, 64]},
        {"device_size": [4, 2, 63], "stride_map": [128, 64, 1]},
        {"device_size": [-4, 2, 64], "stride_map": [128, 64, 1]},
        {"device_size": [], "stride_map": []},
    ],
)
def test_a_malformed_layout_is_refused(arguments):
    with pytest.raises(ValueError):
        SpyreTensorLayout(**arguments, device_dtype=DataFormats.SEN169_FP16)


def test_a_layout_that_does_not_fit_the_tensor_is_refused():
    x = torch.ones(4, 128, dtype=torch.float16, device="spyre")
    for layout in (
        SpyreTensorLayout(host_size=[4, 64], dtype=torch.float16),
        SpyreTensorLayout(host_size=[4, 128], dtype=torch.float32),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            set_spyre_tensor_layout(x, layout)
    assert x.sum().item() == 512


def test_layouts_of_cpu_tensors_are_refused():
    layout = SpyreTensorLayout(host_size=[2], dtype=torch.float16)
    with pytest.raises((TypeError, ValueError, RuntimeError), match="cpu"):
        get_spyre_tensor_layout(torch.ones(2))
    with pytest.raises((TypeError, ValueError, RuntimeError), match="cpu"):
        set_spyre_tensor_layout(torch.ones(2), layout)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.float8_e5m2])
def test_a_dtype_without_format_is_refused_with_one_to_cast_to(dtype):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=str(dtype).split(".")[1]):
        torch.empty(2, dtype=dtype, device="spyre")
    with pytest.raises((RuntimeError, TypeError, ValueError), match="float"):
        SpyreTensorLayout(host_size=[2], dtype=dtype)
