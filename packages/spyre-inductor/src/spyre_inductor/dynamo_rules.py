# SPDX-License-Identifier: Apache-2.0
"""What Dynamo does with `torch.spyre` inside compiled functions: the same as with `torch.cuda`.

Questions about the device are answered while tracing (with a guard where the answer may change),
streams and events become part of the graph. Everything else of our Python is called between
graphs. Private PyTorch API; tried with torch 2.13.0.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from spyre_runtime import devices, streams

_PACKAGES = ("torch_spyre", "spyre_runtime", "spyre_inductor", "spyre_layout")

_ANSWERED = (
    devices.device_count,
    devices.get_amp_supported_dtype,
    devices.get_device_capability,
    devices.get_device_name,
    devices.is_available,
    devices.is_bf16_supported,
)
_ANSWERED_UNDER_GUARD = (devices.current_device, devices.is_initialized)
_IN_GRAPH = (devices.synchronize, streams.current_stream, streams.stream)


def skip_own_modules() -> None:
    """Dynamo must not trace our Python; without this even host-only compiles can fail.

    Called after `torch._dynamo.trace_rules`.
    """
    trace_rules = sys.modules["torch._dynamo.trace_rules"]
    for package in _PACKAGES:
        trace_rules.add(package)


def trace_device_module() -> None:
    """Called after `torch._dynamo.convert_frame`, when all kinds of variables exist."""
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import ctx_manager, user_defined
    from torch._dynamo.variables import torch as functions

    variable: Any = functions.TorchInGraphFunctionVariable
    for function in (*_ANSWERED, *_ANSWERED_UNDER_GUARD, *_IN_GRAPH):
        trace_rules.get_torch_obj_rule_map()[function] = variable
    functions.constant_fold_functions.update(dict.fromkeys((*_ANSWERED, *_ANSWERED_UNDER_GUARD)))
    functions.constant_fold_functions_need_guards.update(dict.fromkeys(_ANSWERED_UNDER_GUARD))
    handlers = variable._get_handlers()
    handlers[devices.synchronize] = _synchronizing(handlers[torch.accelerator.synchronize])
    handlers[streams.current_stream] = handlers[torch.accelerator.current_stream]
    user_defined.UserDefinedClassVariable._in_graph_classes().update(
        {streams.Event, streams.Stream}
    )
    if ctx_manager.get_device_context_manager(devices.device) is None:
        ctx_manager.register_device_context_manager(devices.device, _device_variable(ctx_manager))


def _synchronizing(one_device: Any) -> Any:
    from torch._dynamo.variables.constant import ConstantVariable

    def synchronize(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        """Without a device it waits for all of them, which Dynamo's own handler does not."""
        if args or kwargs:
            return one_device(self, tx, *args, **kwargs)
        for index in range(devices.device_count()):
            target = torch.ops.streams.synchronize_device
            tx.output.create_proxy("call_function", target, ("spyre", index), {})
        return ConstantVariable.create(None)

    return synchronize


def _device_variable(ctx_manager: Any) -> type:
    class SpyreDeviceVariable(ctx_manager.GenericDeviceVariable):  # type: ignore[misc]
        """`torch.spyre.device`."""

        _exchange_fn = staticmethod(devices.exchange_device)
        _maybe_exchange_fn = staticmethod(devices.maybe_exchange_device)

        @staticmethod
        def _get_device_index_fn(device: Any, optional: bool = False) -> int:
            del optional
            return devices.device_index(device)

        def module_name(self) -> str:
            return "torch.spyre"

        def python_type(self) -> type:
            return devices.device

    return SpyreDeviceVariable
