# SPDX-License-Identifier: Apache-2.0
"""Device tensors in queues and pipes between processes: they arrive as copies.

PyTorch shares the memory of what it sends, and knows how for the CPU and CUDA alone. For another
device it fails in the queue's own thread, where the sender cannot see it and the receiver waits for
ever. Spyre memory belongs to one process, so a copy is what can be sent.
"""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from spyre_runtime._registration import DEVICE_NAME


def send_copies() -> None:
    """Make ``torch.multiprocessing`` send copies of device tensors. May be called again."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)


def _reduce(tensor: torch.Tensor) -> Any:
    if tensor.device.type != DEVICE_NAME:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "cannot send a spyre tensor that requires grad and is no leaf to another process; "
            "send tensor.detach()"
        )
    # As bytes: shared host memory would have to outlive the sender.
    values = pickle.dumps(tensor.detach().cpu())
    return _rebuild, (type(tensor), values, tensor.device, tensor.requires_grad)


def _rebuild(kind: type, values: bytes, device: torch.device, requires_grad: bool) -> torch.Tensor:
    tensor = pickle.loads(values).to(device)
    if issubclass(kind, torch.nn.Parameter):
        return kind(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)
