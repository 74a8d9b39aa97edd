# SPDX-License-Identifier: Apache-2.0
"""Stock Hugging Face models run unmodified, eagerly and compiled, and agree with the CPU."""

import contextlib
import copy

import pytest
import torch
import transformers
from families import ALL, DECODERS, ENCODERS, OTHERS, text
from torch.utils._python_dispatch import TorchDispatchMode

HALVES = (torch.float16, torch.bfloat16)
FUSED = ("sdpa", "eager")
# One of each kind of layer: a compiled forward costs seconds.
COMPILED = (
    *("bert", "deberta-v2", "modernbert"),
    *("gpt2", "llama", "gemma2", "granite", "granite-moe", "granite-hybrid", "mamba"),
    *("t5", "whisper", "vit", "swin", "resnet", "wav2vec2"),
)
# A token goes to a few of many experts.
ROUTED = (
    "mixtral",
    "qwen2-moe",
    "granite-moe",
    "granite-hybrid",
    "deepseek-v3",
    "gpt-oss",
    "jamba",
    "switch",
)
# What only the CPU does in a forward of the family; all else stays on the device.
HOST_WORK = {
    "detr": {"aten::upsample_nearest2d.out"},
    "longformer": {"aten::nonzero"},
    "switch": {"aten::nonzero"},
}

# Batch norms over eight samples: on the CPU, rounding the operands of convolutions to ten bits
# alone brings the lowest cosine to 0.983.
LOWEST_GRADIENT_COSINE = {"resnet": 0.975}


def on_device(inputs, dtype):
    return {
        name: value.to("spyre", dtype) if value.is_floating_point() else value.to("spyre")
        for name, value in inputs.items()
    }


def main_output(result):
    """What a model is run for: logits, or hidden states."""
    for name in ("logits", "logits_per_image", "last_hidden_state", "prediction_outputs"):
        if getattr(result, name, None) is not None:
            return result[name]
    raise AssertionError(f"no output to compare among {list(result)}")


def agree(actual, expected, kept=None, at_least=0.999):
    assert actual.device.type == "spyre"
    actual, expected = actual.detach().cpu().float(), expected.detach().float()
    assert actual.shape == expected.shape
    if kept is not None and expected.shape[:2] == kept.shape:  # rows of padding are nobody's
        actual, expected = actual[kept], expected[kept]
    assert torch.isfinite(actual).all()
    cosine = torch.nn.functional.cosine_similarity(actual.flatten(1), expected.flatten(1), dim=-1)
    assert cosine.min() > at_least, f"lowest cosine {cosine.min():.5f}"


def mask_of(inputs):
    return inputs["attention_mask"].bool() if "attention_mask" in inputs else None


class Routing(TorchDispatchMode):
    """Which experts a model takes for a token; given another's, it takes those.

    A router picks the experts with the largest scores. Two that are as good as equal may change
    places by rounding alone, and then all that follows is another, right, result. So both sides
    take the CPU's experts, and what the device would have picked must be as good.
    """

    def __init__(self, other: "Routing | None" = None):
        super().__init__()
        self.picked: list[torch.Tensor] = []
        self.other = other

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is not torch.ops.aten.topk.default:
            return result
        picked = result[1]
        if self.other is not None:
            dim = args[2] if len(args) > 2 else -1
            picked = self.other.picked[len(self.picked)].to(picked.device)
            values = args[0].gather(dim, picked)
            own, given = (v.detach().cpu().float().sort(dim).values for v in (result[0], values))
            margin = 2**-6 * args[0].detach().abs().max().item()
            torch.testing.assert_close(given, own, rtol=0, atol=margin)
            result = (values, picked)
        self.picked.append(picked)
        return result


def routing_of(name, other=None):
    return Routing(other) if name in ROUTED else contextlib.nullcontext()


@pytest.mark.parametrize("name", ALL)
def test_a_family_agrees_with_the_cpu(name):
    family = ALL[name]
    model = family.make()
    for dtype in (torch.float32, *HALVES):
        device_model = copy.deepcopy(model).to("spyre", dtype)
        sizes = {"batch": 3, "length": 7, "padding": "left"} if dtype is torch.float16 else {}
        inputs = family.inputs(**sizes)
        with torch.inference_mode():
            with routing_of(name) as routing:
                expected = main_output(model(**inputs))
            torch.spyre.reset_fallbacks()
            with routing_of(name, routing):
                actual = main_output(device_model(**on_device(inputs, dtype)))
        agree(actual, expected, mask_of(inputs))
        assert torch.spyre.fallbacks().keys() <= HOST_WORK.get(name, set())


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_family_agrees_with_the_cpu(name):
    """As one graph, whose forward takes no fallback."""
    family = ALL[name]
    model = family.make()
    inputs = family.inputs()
    compiled = torch.compile(
        copy.deepcopy(model).half().to("spyre"), backend="spyre", fullgraph=True
    )
    with torch.inference_mode():
        expected = main_output(model(**inputs))
        given = on_device(inputs, torch.float16)
        compiled(**given)
        torch.spyre.reset_fallbacks()
        actual = main_output(compiled(**given))
    agree(actual, expected, mask_of(inputs))
    assert torch.spyre.fallbacks() == {}


@pytest.mark.parametrize("name", ["bert", "llama", "granite-hybrid", "resnet"])
def test_a_model_compiled_for_all_sizes_agrees_with_the_cpu(name):
    family = ALL[name]
    model = family.make()
    compiled = torch.compile(copy.deepcopy(model).half().to("spyre"), backend="spyre", dynamic=True)
    for sizes in ({}, {"batch": 3, "length": 7}, {"batch": 5, "length": 16}):
        inputs = family.inputs(**sizes)
        with torch.inference_mode():
            expected = main_output(model(**inputs))
            actual = main_output(compiled(**on_device(inputs, torch.float16)))
        agree(actual, expected, mask_of(inputs))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "granite"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 5)])
def test_attention_of_either_kind_takes_any_size(name, sizes):
    batch, length = sizes
    inputs = ALL[name].inputs(batch=batch, length=length, padding=None)
    for attention in FUSED:
        model = ALL[name].make(attn_implementation=attention)
        with torch.inference_mode():
            expected = main_output(model(**inputs))
            actual = main_output(model.half().to("spyre")(**on_device(inputs, torch.float16)))
        agree(actual, expected)


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", [*DECODERS, "t5", "bart", "led", "switch", "whisper"])
def test_generate_sees_the_logits_of_the_cpu(name, cache):
    """Greedily, in float16 and with a cache; each step whose tokens so far are the CPU's."""
    family = ALL[name]
    model = family.make()
    given = {
        key: value
        for key, value in family.inputs(length=6, padding="left").items()
        if not key.startswith("decoder")
    }
    settings = {
        "max_new_tokens": 4,
        "min_new_tokens": 4,
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
        "cache_implementation": cache,
    }
    with torch.inference_mode():
        expected = model.generate(**given, **settings)
        actual = model.half().to("spyre").generate(**on_device(given, torch.float16), **settings)
    assert actual.sequences.shape == expected.sequences.shape
    prompt = expected.sequences.shape[1] - 4
    compared = 0
    for step, (mine, theirs) in enumerate(zip(actual.logits, expected.logits, strict=True)):
        until = prompt + step
        same = (actual.sequences.cpu() == expected.sequences)[:, :until].all(1)
        if same.any():
            agree(mine[same.to("spyre")], theirs[same])
            compared += int(same.sum())
    assert compared >= 4  # near ties may go either way, later


def teacher_forced(model, given, tokens, count):
    """Logits for the last `count` tokens, each given those before it, from one forward."""
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            logits = model(**given, decoder_input_ids=tokens[:, :-1]).logits
        else:
            logits = model(tokens[:, :-1]).logits
    return logits[:, -count:]


@pytest.mark.parametrize("name", ["gpt2", "granite-moe", "t5"])
@pytest.mark.parametrize("way", ["beams", "draws"])
def test_generate_in_other_ways_follows_the_cpu(name, way):
    """What is chosen has the logits and scores that the CPU gives to the same tokens."""
    count, top = 6, 20
    family = ALL[name]
    model = family.make()
    given = {
        key: value
        for key, value in family.inputs(length=6, padding=None).items()
        if not key.startswith("decoder")
    }
    settings = {"beams": {"num_beams": 3}, "draws": {"do_sample": True, "top_k": top}}[way]

    def run(runner, inputs):
        torch.manual_seed(3)
        with torch.inference_mode():
            return runner.generate(
                **inputs,
                **settings,
                max_new_tokens=count,
                min_new_tokens=count,
                output_scores=True,
                output_logits=True,
                return_dict_in_generate=True,
            )

    expected = run(model, given)
    device_model, inputs = copy.deepcopy(model).to("spyre"), on_device(given, torch.float32)
    actual = run(device_model, inputs)
    assert torch.equal(run(device_model, inputs).sequences, actual.sequences)
    tokens = actual.sequences.cpu()
    assert tokens.shape == expected.sequences.shape
    logits = teacher_forced(model, given, tokens, count)
    chosen = tokens[:, -count:]
    if way == "beams":
        chances = logits.log_softmax(-1).gather(-1, chosen[..., None])
        scores = actual.sequences_scores.cpu()
        # Operands of ten bits.
        torch.testing.assert_close(scores, chances.mean((1, 2)), rtol=2**-7, atol=0)
        # Texts that are as good may change places.
        torch.testing.assert_close(scores, expected.sequences_scores, rtol=2**-7, atol=0)
    else:
        for step, mine in enumerate(actual.logits):
            agree(mine, logits[:, step])
        least = logits.topk(top).values[..., -1:]
        rounding = 2**-7 * logits.abs().amax(-1, keepdim=True)
        assert (logits.gather(-1, chosen[..., None]) >= least - rounding).all()


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for holder in (module, getattr(module, "config", None)):  # some layers look there
            for name, value in list(vars(holder).items()) if holder is not None else ():
                if "drop" in name and isinstance(value, float):
                    setattr(holder, name, 0.0)
    return model


def loss_of(model, inputs):
    result = model(**inputs)
    if result.get("loss") is not None:
        return result.loss.float()
    return main_output(result).float().pow(2).mean()


def labelled(name):
    inputs = ALL[name].inputs()
    if name in DECODERS:
        inputs["labels"] = inputs["input_ids"]
    elif "decoder_input_ids" in inputs:
        inputs["labels"] = inputs["decoder_input_ids"]
    return inputs


def check_gradients(model, device_model, at_least):
    largest = max(p.grad.abs().max() for p in model.parameters() if p.grad is not None)
    for (name, mine), theirs in zip(
        device_model.named_parameters(), model.parameters(), strict=True
    ):
        if theirs.grad is None:  # a compiled backward gives zeros to what the loss does not need
            assert mine.grad is None or not mine.grad.any(), name
            continue
        assert mine.grad is not None, name
        if theirs.grad.abs().max() < 1e-4 * largest:
            continue
        cosine = torch.nn.functional.cosine_similarity(
            mine.grad.cpu().flatten(), theirs.grad.flatten(), dim=0
        )
        assert cosine > at_least, f"{name}: cosine {cosine:.5f}"


@pytest.mark.parametrize("name", ALL)
def test_a_family_trains_as_on_the_cpu(name):
    """Loss, gradients and a step of the optimizer, in float32."""
    model = without_dropout(ALL[name].make()).train()
    device_model = copy.deepcopy(model).to("spyre")
    inputs = labelled(name)
    given = on_device(inputs, torch.float32)
    with routing_of(name) as routing:
        expected = loss_of(model, inputs)
    with routing_of(name, routing):
        actual = loss_of(device_model, given)
    torch.testing.assert_close(actual.cpu(), expected, rtol=0.01, atol=1e-3)
    expected.backward()
    actual.backward()
    check_gradients(model, device_model, LOWEST_GRADIENT_COSINE.get(name, 0.99))
    for each in (model, device_model):
        torch.optim.AdamW(each.parameters(), lr=1e-3, foreach=True).step()
    with torch.no_grad():
        torch.testing.assert_close(
            loss_of(device_model, given).cpu(), loss_of(model, inputs), rtol=0.03, atol=2e-3
        )


@pytest.mark.parametrize("name", ["bert", "gpt2", "resnet"])
def test_a_compiled_model_trains(name):
    model = without_dropout(ALL[name].make()).train()
    device_model = copy.deepcopy(model).to("spyre")
    inputs = labelled(name)
    expected = loss_of(model, inputs)
    call = torch.compile(device_model, backend="spyre")
    actual = loss_of(call, on_device(inputs, torch.float32))
    expected.backward()
    actual.backward()
    torch.testing.assert_close(actual.cpu(), expected, rtol=0.01, atol=1e-3)
    check_gradients(model, device_model, LOWEST_GRADIENT_COSINE.get(name, 0.99))


def test_checkpointed_and_accumulated_gradients_are_the_plain_ones():
    plain = without_dropout(ENCODERS["bert"].make()).train().to("spyre")
    saving = copy.deepcopy(plain)
    saving.gradient_checkpointing_enable()
    first, second = text(batch=2), text(batch=3, length=7)
    for model in (plain, saving):
        for inputs in (first, second):
            loss_of(model, on_device(inputs, torch.float32)).backward()
    for mine, theirs in zip(saving.parameters(), plain.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None)
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad.cpu(), theirs.grad.cpu())


def test_weights_go_to_disk_and_back(tmp_path):
    model = ENCODERS["bert"].make().half().to("spyre")
    inputs = on_device(text(), torch.float16)
    with torch.inference_mode():
        expected = main_output(model(**inputs)).cpu()
        model.save_pretrained(tmp_path / "hf")
        again = transformers.BertModel.from_pretrained(tmp_path / "hf", dtype=torch.float16)
        torch.save(model.state_dict(), tmp_path / "state.pt")
        fresh = ENCODERS["bert"].make().half().to("spyre")
        fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
        for copied in (
            again.eval().to("spyre"),
            fresh,
            copy.deepcopy(model),
            model.cpu().to("spyre"),
        ):
            assert torch.equal(main_output(copied(**inputs)).cpu(), expected)


@pytest.mark.parametrize("way", ["context", "default"])
def test_a_model_is_made_on_the_device(way):
    family = OTHERS["vit"]
    config = transformers.ViTConfig(**family.settings)
    try:
        if way == "default":
            torch.set_default_device("spyre")
        with torch.device("spyre") if way == "context" else contextlib.nullcontext():
            model = transformers.ViTModel(config).eval()
    finally:
        torch.set_default_device(None)
    assert {p.device.type for p in model.parameters()} == {"spyre"}
    with torch.inference_mode():
        actual = model(**on_device(family.inputs(), torch.float32)).last_hidden_state
        expected = copy.deepcopy(model).cpu()(**family.inputs()).last_hidden_state
    agree(actual, expected)
