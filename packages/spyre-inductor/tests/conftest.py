# SPDX-License-Identifier: Apache-2.0
"""Makes the device known without torch-spyre: these tests need this wheel and its needs only."""

from __future__ import annotations

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import pytest
import torch


def _register_device() -> None:
    import spyre_inductor
    import spyre_runtime
    from spyre_runtime.post_import import when_imported

    spyre_runtime.register()
    for module, hook in spyre_inductor.post_import_hooks().items():
        when_imported(module, hook)


_register_device()


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
