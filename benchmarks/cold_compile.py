# SPDX-License-Identifier: Apache-2.0
"""Times one cold compile of MiniLM by the backend named, and says where it went, as JSON."""

from __future__ import annotations

import json
import sys
import time

import torch
from minilm import inputs, load


def main(backend: str) -> None:
    """Compile, run once, and print the seconds beyond a warm eager forward."""
    device = "spyre" if backend == "spyre" else "cpu"
    model = load().half().to(device)
    batch = {key: value.to(device) for key, value in inputs().items()}
    with torch.inference_mode():
        model(**batch)
        start = time.perf_counter()
        eager = model(**batch).last_hidden_state.cpu()
        eager_seconds = time.perf_counter() - start
        start = time.perf_counter()
        compiled = torch.compile(model, backend=backend)(**batch).last_hidden_state.cpu()
        seconds = time.perf_counter() - start - eager_seconds
    assert torch.allclose(eager.float(), compiled.float(), atol=0.05)
    print(json.dumps({"seconds": seconds, "phases": _phases()}))


def _phases(shown: int = 12) -> dict[str, float]:
    """Return the largest of the phases that PyTorch times; they nest, so they do not add up."""
    from torch._dynamo.utils import compilation_time_metrics

    totals = {name: sum(times) for name, times in compilation_time_metrics.items()}
    largest = sorted(totals.items(), key=lambda row: -row[1])[:shown]
    return {name: seconds for name, seconds in largest if seconds >= 0.01}


if __name__ == "__main__":
    main(sys.argv[1])
