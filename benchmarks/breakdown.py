# SPDX-License-Identifier: Apache-2.0
"""Says where the time of a compiled MiniLM forward goes on the device, as JSON lines."""

from __future__ import annotations

import json
import time

import spyre_runtime
import torch
from minilm import inputs, load


def main() -> None:
    """Time queueing and running, and count what was launched."""
    model = load().half().to("spyre")
    batch = {key: value.to("spyre") for key, value in inputs().items()}
    compiled = torch.compile(model, backend="spyre")
    with torch.inference_mode():
        for _ in range(3):
            compiled(**batch)
        torch.spyre.synchronize()
        before = spyre_runtime.program_stats()
        queued, whole = [], []
        for _ in range(10):
            start = time.perf_counter()
            compiled(**batch)
            queued.append(time.perf_counter() - start)
            torch.spyre.synchronize()
            whole.append(time.perf_counter() - start)
        after = spyre_runtime.program_stats()
    launches = (after["launches"] - before["launches"]) // 10
    lines = [
        f"{min(whole) * 1e3:.1f} ms from call to end",
        f"{min(queued) * 1e3:.1f} ms until Python goes on (guards, launches)",
        f"{launches} program launches, {min(queued) / max(launches, 1) * 1e6:.0f} us of host each",
        f"{after['links'] - before['links']} programs linked anew (0: all were cached)",
    ]
    print(json.dumps({"lines": lines, "seconds": min(whole), "launches": launches}))


if __name__ == "__main__":
    main()
