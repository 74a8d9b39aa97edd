# SPDX-License-Identifier: Apache-2.0
"""What must have ended before the interpreter goes down."""

from __future__ import annotations

import atexit
import time
from pathlib import Path

_THREADS = Path("/proc/self/task")
_LONGEST_WAIT_S = 1.0
_PAUSE_S = 0.001


def settle_at_exit() -> None:
    """Let PyTorch's backward threads come to rest before the interpreter is finalised.

    ``backward()`` returns while the device's own backward thread still lets go of the graph. If
    that takes the GIL of an interpreter that has begun to go down, Python ends the thread by
    unwinding it, which aborts the process.
    """
    atexit.register(_wait_for_backward_threads)


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
