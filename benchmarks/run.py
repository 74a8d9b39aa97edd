# SPDX-License-Identifier: Apache-2.0
"""Prints times on device "spyre" beside PyTorch CPU, of one run on one machine, as ratios.

Figures of two machines or two runs say little about each other; ratios of one run do. Every time
is the best of many, warm, all contenders taking turns; cold compiles run in processes of their own
with empty caches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from timing import best_seconds, readable
from works import WORKS, Work

HERE = Path(__file__).parent
os.environ.setdefault("HF_HUB_OFFLINE", "1")

CONTENDERS = (
    # name, device, dtype, backend or None for eager
    ("cpu fp32", "cpu", torch.float32, None),
    ("cpu fp32 compiled", "cpu", torch.float32, "inductor"),
    ("cpu fp16", "cpu", torch.float16, None),
    ("cpu fp16 compiled", "cpu", torch.float16, "inductor"),
    ("spyre fp16", "spyre", torch.float16, None),
    ("spyre fp16 compiled", "spyre", torch.float16, "spyre"),
)
BASE = "cpu fp16"


def waiting(function: Callable, inputs: list, device: str) -> Callable[[], None]:
    """Return a call that ends when its work has."""
    if device == "cpu":
        return lambda: function(*inputs)

    def work() -> None:
        function(*inputs)
        torch.spyre.synchronize()

    return work


def calls(work: Work, compiled_cpu: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield each contender's call of a work."""
    for name, device, dtype, backend in CONTENDERS:
        if backend == "inductor" and not compiled_cpu:
            continue
        torch._dynamo.reset()
        function = work.function
        if backend is not None:
            function = torch.compile(function, backend=backend, dynamic=False)
        yield name, waiting(function, work.inputs(dtype, device), device)


def print_row(name: str, times: dict[str, float]) -> None:
    """Print the times of a row, and those on spyre also as parts of CPU float16's."""
    cells = []
    for contender, *_ in CONTENDERS:
        if contender not in times:
            cells.append(f"{'-':>18}")
            continue
        ratio = f" {times[contender] / times[BASE]:6.2f}x" if contender.startswith("spyre") else ""
        cells.append(f"{readable(times[contender]) + ratio:>18}")
    print(f"{name:<26}" + "".join(cells), flush=True)


def works_table(only: str, compiled_cpu: bool, repeats: int) -> dict[str, dict[str, float]]:
    """Time every work for every contender."""
    table = {}
    for work in WORKS:
        if only in work.name:
            with torch.inference_mode():
                table[work.name] = best_seconds(dict(calls(work, compiled_cpu)), repeats)
            print_row(work.name, table[work.name])
    return table


def minilm_table(compiled_cpu: bool, repeats: int) -> dict[str, float]:
    """Time the stock sentence model on 32 sentences of 64 tokens."""
    from minilm import inputs, load

    def contender(device: str, dtype: torch.dtype, backend: str | None) -> Callable[[], None]:
        model = load().to(dtype).to(device)
        batch = {key: value.to(device) for key, value in inputs().items()}
        torch._dynamo.reset()
        call = torch.compile(model, backend=backend) if backend else model
        return waiting(lambda: call(**batch), [], device)

    with torch.inference_mode():
        times = best_seconds(
            {
                name: contender(device, dtype, backend)
                for name, device, dtype, backend in CONTENDERS
                if compiled_cpu or backend != "inductor"
            },
            repeats,
        )
    print_row("MiniLM-L6, 32 x 64 tokens", times)
    return times


def run_alone(script: str, *arguments: str, **environment: str) -> dict:
    """Run a script of this folder in a new process with empty caches; return what it reports."""
    with tempfile.TemporaryDirectory() as cache:
        settings = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, **environment}
        done = subprocess.run(
            [sys.executable, str(HERE / script), *arguments],
            env=settings,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{script} {' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def cold_compile(compiled_cpu: bool) -> dict[str, dict]:
    """Time the first call of a compiled MiniLM with empty caches, by backend."""
    print("\ncold compile of MiniLM (first call, empty caches)")
    backends = ["aot_eager", "spyre", *(["inductor"] if compiled_cpu else [])]
    results = {name: run_alone("cold_compile.py", name) for name in backends}
    base = results.get("inductor", {}).get("seconds")
    labels = {
        "aot_eager": "Dynamo and AOTAutograd alone (the floor)",
        "spyre": 'device "spyre"',
        "inductor": "CPU Inductor",
    }
    for name, result in results.items():
        ratio = f"  {result['seconds'] / base:.2f}x" if base else ""
        print(f"  {labels[name]:<42}{result['seconds']:7.2f} s{ratio}")
    print("  where it goes on spyre:")
    for phase, seconds in results["spyre"]["phases"].items():
        print(f"    {phase:<60}{seconds:7.2f} s")
    return results


def import_time() -> dict[str, float]:
    """Time `import torch` with and without the autoload."""
    code = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"

    def best(autoload: str) -> float:
        return min(
            float(
                subprocess.run(
                    [sys.executable, "-c", code],
                    env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(5)
        )

    without, with_it = best("0"), best("1")
    print(
        f"\nimport torch: {without:.2f} s without autoload, "
        f"{(with_it - without) * 1e3:.0f} ms more with it"
    )
    return {"without": without, "with": with_it}


def breakdown() -> dict:
    """Show where the time of a compiled MiniLM goes on the device."""
    result = run_alone("breakdown.py")
    print("\nwhere a compiled MiniLM forward goes on spyre")
    for line in result["lines"]:
        print(f"  {line}")
    return result


def main() -> int:
    """Print all tables, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", help="rows whose name contains this, and no more")
    parser.add_argument("--repeats", type=int, default=15, help="stretches timed (default: 15)")
    parser.add_argument(
        "--no-cpu-compiled",
        action="store_true",
        help="leave out CPU Inductor, which compiles C++ for minutes",
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    compiled_cpu = not arguments.no_cpu_compiled
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}, "
        f"{torch.backends.cpu.get_cpu_capability()}; best of {arguments.repeats}, "
        f"x = times {BASE} eager\n"
    )
    print(
        f"{'work (4096 x 4096 unless said)':<26}"[:26] + "".join(f"{c[0]:>18}" for c in CONTENDERS)
    )
    figures: dict = {"works": works_table(arguments.only, compiled_cpu, arguments.repeats)}
    if not arguments.only:
        figures["minilm"] = minilm_table(compiled_cpu, arguments.repeats)
        figures["breakdown"] = breakdown()
        figures["cold"] = cold_compile(compiled_cpu)
        figures["import"] = import_time()
        layout = HERE / "bench_layout.py"
        if layout.is_file():
            print("\nlayouts and formats", flush=True)
            subprocess.run([sys.executable, str(layout)], check=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
