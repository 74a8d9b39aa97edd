# SPDX-License-Identifier: Apache-2.0
"""What users write, for a type checker: `nox -s lint` holds it strictly; nothing runs it.

`torch.spyre` is put into PyTorch at run time, where no checker sees it. The module itself is
`spyre_runtime.device_module`, which is typed.
"""

from typing import assert_type

import spyre_layout
import torch
import torch_spyre
from spyre_runtime import device_module as spyre
from torch_spyre import _C, constants
from torch_spyre.device.interface import SpyreDeviceProperties, SpyreInterface

assert_type(torch_spyre.__version__, str)
assert_type(spyre.is_available(), bool)
assert_type(spyre.device_count(), int)
assert_type(spyre.current_device(), int)
spyre.set_device(0)
spyre.set_device("spyre:0")
assert_type(spyre.is_initialized(), bool)
spyre.manual_seed(1)
spyre.manual_seed_all(1)

stream = spyre.Stream(device="spyre", priority=1)
assert_type(stream, spyre.Stream)
assert_type(stream.query(), bool)
assert_type(stream.id, int)
assert_type(stream.priority, int)
device: torch.device = stream.device()
assert_type(spyre.current_stream(), spyre.Stream)
assert_type(spyre.default_stream(0), spyre.Stream)
with spyre.stream(stream):
    spyre.synchronize()
spyre.synchronize("spyre:0")
event = spyre.Event(enable_timing=True)
assert_type(event.elapsed_time(event), float)

layout = _C.SpyreTensorLayout(host_size=[4, 128], dtype=torch.float16)
explicit = _C.SpyreTensorLayout(
    device_size=[4, 2, 64], stride_map=[128, 64, 1], device_dtype=_C.DataFormats.SEN169_FP16
)
assert_type(layout, spyre_layout.SpyreTensorLayout)
assert_type(layout.device_size, list[int])
assert_type(layout.stride_map, list[int])
assert_type(layout.device_dtype, spyre_layout.DataFormats)
assert_type(layout.elems_per_stick(), int)
assert_type(layout.device_dtype.elems_per_stick(), int)

x = torch.ones(4, 128, dtype=torch.float16, device=constants.DEVICE_NAME)
assert_type(_C.get_spyre_tensor_layout(x), spyre_layout.SpyreTensorLayout)
_C.set_spyre_tensor_layout(x, layout)
assert_type(_C.get_downcast_warning(), bool)
_C.set_downcast_warning(enabled=False)

assert_type(SpyreInterface.get_device_properties(), SpyreDeviceProperties)
assert_type(SpyreInterface.get_device_properties().total_memory, int)
