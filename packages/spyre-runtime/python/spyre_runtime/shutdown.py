# SPDX-License-Identifier: Apache-2.0
"""What must have ended before the interpreter goes down."""

from __future__ import annotations

import atexit
import sys
import time
import warnings
from pathlib import Path

_THREADS = Path("/proc/self/task")
_LONGEST_WAIT_S = 1.0
_PAUSE_S = 0.001


def settle_at_exit() -> None:
    """Let the work of other threads end before the interpreter is finalised.

    ``backward()`` returns while the device's own backward thread still lets go of the graph. If
    that takes the GIL of an interpreter that has begun to go down, Python ends the thread by
    unwinding it, which aborts the process. Queued work may use host memory that Python owns.
    """
    atexit.register(_settle)


def _settle() -> None:
    _wait_for_backward_threads()
    module = sys.modules.get("spyre_runtime._C")
    if module is None or not module.is_initialized():
        return
    for index in range(module.device_count()):
        try:
            module.synchronize_device(index)
        except Exception as error:  # noqa: BLE001 - whatever the work met; nobody asks any more
            warnings.warn(
                f"work that was still queued on spyre:{index} at exit failed: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _wait_for_backward_threads() -> None:
    deadline = time.monotonic() + _LONGEST_WAIT_S
    resting = 0
    while resting < 2 and time.monotonic() < deadline:
        states = _backward_thread_states()
        if not states:
            return
        # A thread that waits for the GIL sleeps as well: "S" tells only after a pause without it.
        resting = resting + 1 if set(states) == {"S"} else 0
        time.sleep(_PAUSE_S)


def _backward_thread_states() -> list[str]:
    states = []
    for thread in _THREADS.glob("*") if _THREADS.exists() else ():
        try:
            name, rest = (thread / "stat").read_text().rsplit(")", 1)
        except OSError:  # it has just ended
            continue
        if "(pt_autograd_" in name:
            states.append(rest.split()[0])
    return states
