# SPDX-License-Identifier: Apache-2.0
"""What must have ended before the interpreter goes down."""

from __future__ import annotations

import atexit
import sys
import time
from pathlib import Path

_THREADS = Path("/proc/self/task")
_LONGEST_WAIT_S = 1.0
_PAUSE_S = 0.001


def settle_at_exit() -> None:
    """Tell of errors that nothing has waited for, and let PyTorch's backward threads come to rest.

    ``backward()`` returns while the device's own backward thread still lets go of the graph. If
    that takes the GIL of an interpreter that has begun to go down, Python ends the thread by
    unwinding it, which aborts the process.
    """
    atexit.register(_wait_for_backward_threads)
    atexit.register(_report_pending_errors)


def _report_pending_errors() -> None:
    """Print what operations reported after the last synchronisation, such as a bad index."""
    module = sys.modules.get("spyre_runtime._C")
    if module is None or not module.is_initialized() or module.in_bad_fork():
        return
    for index in range(module.device_count()):
        try:
            module.synchronize_device(index)
        except (IndexError, RuntimeError, ValueError) as error:
            print(
                f"spyre:{index}: an operation failed and nothing waited for it: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
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
