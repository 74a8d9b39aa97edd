# SPDX-License-Identifier: Apache-2.0
"""get_spyre_tensor_layout and set_spyre_tensor_layout."""

from __future__ import annotations

import pytest
import spyre_runtime
import torch
from spyre_layout import DataFormats, SpyreTensorLayout
from tensor_cases import equal, values

get_layout = spyre_runtime.get_spyre_tensor_layout
set_layout = spyre_runtime.set_spyre_tensor_layout


def test_the_layout_of_a_new_tensor():
    layout = get_layout(torch.randn(4, 128, dtype=torch.float16, device="spyre"))
    assert list(layout.device_size) == [4, 2, 64]
    assert list(layout.stride_map) == [128, 64, 1]
    assert layout.device_dtype == DataFormats.SEN169_FP16
    assert list(get_layout(torch.zeros((), device="spyre")).device_size) == [1, 32]
    assert get_layout(torch.zeros(0, 3, device="spyre")).device_dtype == DataFormats.IEEE_FP32


def test_views_share_the_layout():
    x = torch.zeros(4, 128, dtype=torch.float16, device="spyre")
    assert get_layout(x.t()[3:]) == get_layout(x)


@pytest.mark.parametrize("size", [(512, 256), (100, 70), (3, 5, 130)])
def test_laying_out_anew_keeps_values(size):
    source = values(size, torch.float16)
    x = source.to("spyre")
    view = x.t() if x.dim() == 2 else x[1]
    stride = list(source.stride())
    order = list(range(len(size)))
    layout = SpyreTensorLayout(list(size), stride, torch.float16, order)
    set_layout(x, layout)
    assert get_layout(x) == layout
    assert equal(x, source)
    assert equal(view, source.t() if source.dim() == 2 else source[1])
    x.add_(1)
    assert equal(x, source + 1)
    assert equal(x.clone(), source + 1)


def test_layouts_that_cannot_hold_the_tensor_are_refused():
    x = torch.zeros(4, 128, dtype=torch.float16, device="spyre")
    with pytest.raises(ValueError, match="no place"):
        set_layout(x, SpyreTensorLayout([2, 128], torch.float16))
    with pytest.raises(ValueError, match="format"):
        set_layout(x, SpyreTensorLayout([4, 128], torch.float32))
    with pytest.raises(TypeError, match="SpyreTensorLayout"):
        set_layout(x, "row major")
    with pytest.raises(ValueError, match="spyre tensor"):
        get_layout(torch.zeros(3))
    with pytest.raises(TypeError):
        get_layout(3)
