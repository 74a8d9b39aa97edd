# SPDX-License-Identifier: Apache-2.0
"""Registers the device with PyTorch: the name, the module ``torch.spyre`` and the kernels.

Light by design: no device is opened, and neither Dynamo nor Inductor is imported.
"""

from __future__ import annotations

import sys

DEVICE_NAME = "spyre"

_is_native_loaded = False


def register(*, names_only: bool = False) -> None:
    """Make ``device="spyre"`` and ``torch.spyre`` work.

    Calling it again does nothing.

    Args:
        names_only: Register names and leave native code unloaded until it is used. For processes
            that compile for the device without running anything on it.
    """
    global _is_native_loaded
    import torch

    from spyre_runtime import device_module
    from spyre_runtime.sharing import send_copies
    from spyre_runtime.shutdown import settle_at_exit
    from spyre_runtime.without_float64 import avoid_float64

    if torch._C._get_privateuse1_backend_name() != DEVICE_NAME:
        torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    if getattr(torch, DEVICE_NAME, None) is not device_module:
        torch._register_device_module(DEVICE_NAME, device_module)
        torch.utils.generate_methods_for_privateuse1_backend(
            for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
        )
        _supply_accelerator_functions()
        avoid_float64()
        send_copies()
        settle_at_exit()
    if not names_only and not _is_native_loaded:
        _is_native_loaded = True
        from spyre_runtime._native import native
        from spyre_runtime.post_import import when_imported

        native()
        when_imported("torch._dynamo.trace_rules", _keep_dynamo_out)
        when_imported("torch._dynamo.device_interface", _register_interface)


def _supply_accelerator_functions() -> None:
    """Add the device-agnostic random number functions that this version of PyTorch lacks."""
    import torch

    from spyre_runtime import random

    for name in ("manual_seed", "manual_seed_all", "get_rng_state", "set_rng_state"):
        if not hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, getattr(random, name))


def _keep_dynamo_out() -> None:
    """Tell Dynamo not to trace this package: else even CPU-only graphs can fail after a break."""
    # Not `import torch._dynamo`: that package is still being imported when this runs.
    trace_rules = sys.modules["torch._dynamo.trace_rules"]
    trace_rules.add("spyre_runtime")


def _register_interface() -> None:
    # The module registers at its end. No name is taken from it: when somebody imports it before
    # Dynamo, this runs in the middle of that import.
    import spyre_runtime.interface  # noqa: F401
