# SPDX-License-Identifier: Apache-2.0
"""Makes the device known without the torch-spyre package: these tests need this wheel and its needs only."""

from __future__ import annotations

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import pytest
import torch


def _register_device() -> None:
    import spyre_runtime
    from spyre_inductor.register import _skip_own_modules, register_inductor

    spyre_runtime.register()
    import torch._dynamo.trace_rules
    import torch._inductor.compile_fx

    _skip_own_modules()
    register_inductor()


_register_device()


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
