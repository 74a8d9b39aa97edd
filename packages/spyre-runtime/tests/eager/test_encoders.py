# SPDX-License-Identifier: Apache-2.0
"""The fused layers of torch.nn's encoders, and sampling, run natively and as on the CPU."""

import copy

import pytest
import torch
from compare import mismatch

DTYPES = {torch.float32: 2**-8, torch.float16: 2**-6, torch.bfloat16: 2**-5}


def native(run):
    torch.spyre.reset_fallbacks()
    result = run()
    assert torch.spyre.fallbacks() == {}
    return result


def masks():
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[1, 4:] = True
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    return {"none": {}, "padding": {"src_key_padding_mask": padding}, "causal": {"mask": causal}}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", masks())
def test_an_encoder_of_torch_is_native(kind, norm_first, dtype):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, 64, norm_first=norm_first, batch_first=True, activation="gelu"
    )
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    on_device = copy.deepcopy(encoder).to("spyre", dtype)
    x, given = torch.randn(3, 6, 32), masks()[kind]
    with torch.inference_mode():
        expected = encoder(x, **given)
        actual = native(
            lambda: on_device(x.to("spyre", dtype), **{k: m.to("spyre") for k, m in given.items()})
        )
    assert mismatch(actual.float(), expected, rtol=DTYPES[dtype], atol=DTYPES[dtype]) is None


@pytest.mark.parametrize("weights", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("mask_type", [None, 0, 1, 2])
def test_fused_attention_has_the_outputs_of_the_cpu(mask_type, weights):
    """Rows without a key to look at included, whose weights are NaN."""
    torch.manual_seed(0)
    x, qkv, proj = torch.randn(3, 5, 16), torch.randn(48, 16) / 4, torch.randn(16, 16) / 4
    mask = {
        None: None,
        0: torch.ones(5, 5, dtype=torch.bool).triu(1),
        1: torch.arange(5).expand(3, 5) >= torch.tensor([[5], [3], [0]]),
        2: torch.rand(3, 4, 5, 5) < 0.3,
    }[mask_type]
    tensors = (qkv, torch.randn(48), proj, torch.randn(16), mask)

    def run(device):
        source = x.to(device)
        given = [t if t is None else t.to(device) for t in tensors]
        return torch._native_multi_head_attention(
            source, source, source, 16, 4, *given, *weights, mask_type
        )

    expected, actual = run("cpu"), native(lambda: run("spyre"))
    for mine, theirs in zip(actual, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert torch.equal(mine.isnan().cpu(), theirs.isnan())
            assert mismatch(mine, theirs, rtol=2**-7, atol=2**-7) is None


@pytest.mark.parametrize("way", [(1, False), (1, True), (4, False)])
def test_samples_are_those_of_the_cpu(way):
    chances = torch.rand(5, 40)
    chances[:, ::3] = 0
    drawn = []
    for device in ("cpu", "spyre"):
        x = chances.to(device)
        torch.manual_seed(11)
        drawn.append(native(lambda x=x: torch.multinomial(x, *way)).cpu())
    assert torch.equal(*drawn)
    generator = torch.Generator("spyre").manual_seed(11)
    again = torch.multinomial(chances.to("spyre"), *way, generator=generator)
    assert torch.equal(again.cpu(), drawn[0])


@pytest.mark.parametrize(
    ("chances", "count"), [([0.0, 0.0], 1), ([-1.0, 2.0], 1), ([float("nan"), 1.0], 1), ([1.0], 2)]
)
def test_no_sample_of_no_distribution(chances, count):
    messages = []
    for device in ("cpu", "spyre"):
        with pytest.raises(RuntimeError) as error:
            torch.multinomial(torch.tensor(chances, device=device), count)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [-1, 1])
def test_gates_of_channels_are_native(dim, dtype):
    given = torch.randn(3, 8, 10)
    results = []
    for device in ("cpu", "spyre"):
        x = given.clone().to(device, torch.float32 if device == "cpu" else dtype)
        x = x.detach().requires_grad_()

        def run(x=x):
            y = torch.nn.functional.glu(x, dim)
            y.float().square().sum().backward()
            return y.detach(), x.grad

        results.append(run() if device == "cpu" else native(run))
    for theirs, mine in zip(*results, strict=True):
        tolerance = 1e-5 if dtype is torch.float32 else 2**-7
        assert mismatch(mine.float(), theirs, rtol=tolerance, atol=tolerance) is None
