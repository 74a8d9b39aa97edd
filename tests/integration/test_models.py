# SPDX-License-Identifier: Apache-2.0
"""Stock Hugging Face models run unmodified, eagerly and compiled, and agree with the CPU.

The models are small and random, made from configurations; their code is what ships in transformers.
"""

import copy

import pytest
import torch
import transformers


def encoder(name, **settings):
    return getattr(transformers, f"{name}Model"), getattr(transformers, f"{name}Config")(**settings)


def causal(name, **settings):
    return (
        getattr(transformers, f"{name}ForCausalLM" if name != "GPT2" else "GPT2LMHeadModel"),
        getattr(transformers, f"{name}Config")(**settings),
    )


SMALL = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
LLAMA = {**SMALL, "num_key_value_heads": 2, "max_position_embeddings": 128}
TOKENS = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}

ENCODERS = {
    "bert": encoder("Bert", **SMALL),
    "roberta": encoder("Roberta", **SMALL),
    "distilbert": encoder(
        "DistilBert", vocab_size=100, dim=64, n_layers=2, n_heads=4, hidden_dim=128
    ),
    "electra": encoder("Electra", **SMALL, embedding_size=32),
    "mpnet": encoder("MPNet", **SMALL),
    "albert": encoder("Albert", **SMALL, embedding_size=32),
}
DECODERS = {
    "gpt2": causal("GPT2", vocab_size=100, n_embd=64, n_layer=2, n_head=4, **TOKENS),
    "llama": causal("Llama", **LLAMA, **TOKENS),
    "mistral": causal("Mistral", **LLAMA, sliding_window=8, **TOKENS),
    "qwen2": causal("Qwen2", **LLAMA, **TOKENS),
    "gemma": causal("Gemma", **LLAMA, head_dim=16, **TOKENS),
    "opt": causal(
        "OPT",
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=128,
        word_embed_proj_dim=64,
        **TOKENS,
    ),
}


def make(kind):
    model_class, config = kind
    torch.manual_seed(0)
    return model_class(copy.deepcopy(config)).eval()


def ids(batch=2, length=12):
    return torch.randint(3, 100, (batch, length), generator=torch.Generator().manual_seed(1))


def agree(actual, expected, at_least=0.999):
    actual, expected = actual.cpu().float(), expected.float()
    assert actual.shape == expected.shape
    assert torch.isfinite(actual).all()
    cosine = torch.nn.functional.cosine_similarity(actual, expected, dim=-1)
    assert cosine.min() > at_least, f"lowest cosine {cosine.min():.5f}"


@pytest.fixture(params=["eager", "compiled"])
def run(request):
    """Return a function that makes a model callable in the mode under test."""
    return (
        (lambda m: m) if request.param == "eager" else lambda m: torch.compile(m, backend="spyre")
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_agrees_with_the_cpu(name, run):
    model = make(ENCODERS[name])
    tokens = ids()
    mask = torch.ones_like(tokens)
    mask[1, 8:] = 0
    with torch.inference_mode():
        expected = model(tokens, attention_mask=mask).last_hidden_state
        device_model = run(model.half().to("spyre"))
        actual = device_model(tokens.to("spyre"), attention_mask=mask.to("spyre"))
    agree(actual.last_hidden_state[0], expected[0])
    agree(actual.last_hidden_state[1, :8], expected[1, :8])


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_agrees_with_the_cpu(name, run):
    model = make(DECODERS[name])
    tokens = ids()
    with torch.inference_mode():
        expected = model(tokens).logits
        actual = run(model.half().to("spyre"))(tokens.to("spyre")).logits
    agree(actual, expected)


def step_by_step(model, tokens, start):
    """Logits for the tokens from `start` on, given those before; one step each, with a cache."""
    output = model(tokens[:, :start], use_cache=True)
    logits = [output.logits[0, -1]]
    for place in range(start, tokens.shape[1] - 1):
        cache = output.past_key_values
        output = model(tokens[:, place : place + 1], past_key_values=cache, use_cache=True)
        logits.append(output.logits[0, -1])
    return torch.stack(logits).cpu().float()


def at_once(model, tokens, start):
    """The same from one forward without a cache."""
    return model(tokens[:, :-1], use_cache=False).logits[0, start - 1 :].cpu().float()


def is_tie(logits, one, other):
    """Whether two tokens are as good as the rounding of matrix operands lets one tell."""
    return abs(logits[one] - logits[other]) <= 2**-8 * logits.abs().max()


def choose_alike(actual, expected):
    """Logits agree at every step, and so does the best token, unless it is a tie."""
    agree(actual, expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert is_tie(theirs, mine.argmax(), theirs.argmax())


def same_until_a_tie(actual, expected, logits, start):
    """Generated tokens are the expected ones; after a tie two texts may go their own ways."""
    assert actual.shape == expected.shape
    for place in range(actual.shape[1]):
        one, other = actual[0, place], expected[0, place]
        if one != other:
            assert place >= start
            assert is_tie(logits[place - start], one, other), (actual.tolist(), expected.tolist())
            return


@pytest.mark.parametrize("name", DECODERS)
def test_generate_with_a_cache_gives_the_tokens_of_no_cache(name):
    model = make(DECODERS[name]).half().to("spyre")
    tokens = ids(1, 6).to("spyre")
    settings = {"max_new_tokens": 8, "do_sample": False}
    with torch.inference_mode():
        cached = model.generate(tokens, use_cache=True, **settings)
        plain = model.generate(tokens, use_cache=False, **settings)
        assert cached.shape == (1, 14)
        expected = at_once(model, plain, 6)
        choose_alike(step_by_step(model, plain, 6), expected)
    same_until_a_tie(cached.cpu(), plain.cpu(), expected, 6)


def test_generate_follows_the_cpu_in_float32():
    model = make(DECODERS["llama"])
    tokens = ids(1, 6)
    settings = {"max_new_tokens": 6, "do_sample": False}
    with torch.inference_mode():
        tokens = model.generate(tokens, **settings)
        expected = at_once(model, tokens, 6)
        model.to("spyre")
        for follow in (at_once, step_by_step):
            choose_alike(follow(model, tokens.to("spyre"), 6), expected)
        actual = model.generate(tokens[:, :6].to("spyre"), **settings)
    same_until_a_tie(actual.cpu(), tokens, expected, 6)


def test_t5_encodes_and_decodes(run):
    config = transformers.T5Config(
        vocab_size=100,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    tokens, target = ids(), ids(2, 5)
    with torch.inference_mode():
        expected = model(input_ids=tokens, decoder_input_ids=target).logits
        device_model = run(model.half().to("spyre"))
        actual = device_model(
            input_ids=tokens.to("spyre"), decoder_input_ids=target.to("spyre")
        ).logits
    agree(actual, expected)


def test_whisper_hears(run):
    config = transformers.WhisperConfig(
        vocab_size=100,
        num_mel_bins=16,
        d_model=64,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=50,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    torch.manual_seed(0)
    model = transformers.WhisperModel(config).eval()
    sound, tokens = torch.randn(1, 16, 100), ids(1, 5)
    with torch.inference_mode():
        expected = model(input_features=sound, decoder_input_ids=tokens).last_hidden_state
        device_model = run(model.half().to("spyre"))
        actual = device_model(
            input_features=sound.half().to("spyre"), decoder_input_ids=tokens.to("spyre")
        ).last_hidden_state
    agree(actual, expected)


def test_vit_sees(run):
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
    )
    torch.manual_seed(0)
    model = transformers.ViTModel(config).eval()
    picture = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        expected = model(picture).last_hidden_state
        actual = run(model.half().to("spyre"))(picture.half().to("spyre")).last_hidden_state
    agree(actual, expected)


def test_a_model_trains(run):
    """Forward, loss, backward and an optimizer step lower the loss as on the CPU."""
    cpu_model = make(ENCODERS["bert"]).train()
    for module in cpu_model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    device_model = copy.deepcopy(cpu_model).to("spyre")
    tokens = ids()

    def losses(model, inputs):
        call = run(model) if inputs.device.type == "spyre" else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        values = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = call(inputs).last_hidden_state.float().pow(2).mean()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        return torch.tensor(values)

    expected = losses(cpu_model, tokens)
    actual = losses(device_model, tokens.to("spyre"))
    assert expected[2] < expected[0]
    torch.testing.assert_close(actual, expected, rtol=0.02, atol=1e-3)


def test_weights_go_to_disk_and_back(tmp_path):
    model = make(ENCODERS["bert"]).half().to("spyre")
    tokens = ids().to("spyre")
    with torch.inference_mode():
        expected = model(tokens).last_hidden_state.cpu()
        model.save_pretrained(tmp_path / "hf")
        again = transformers.BertModel.from_pretrained(tmp_path / "hf", dtype=torch.float16)
        again = again.eval().to("spyre")
        assert torch.equal(again(tokens).last_hidden_state.cpu(), expected)
        torch.save(model.state_dict(), tmp_path / "state.pt")
        fresh = make(ENCODERS["bert"]).half().to("spyre")
        fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
        assert torch.equal(fresh(tokens).last_hidden_state.cpu(), expected)
        assert torch.equal(copy.deepcopy(model)(tokens).last_hidden_state.cpu(), expected)
