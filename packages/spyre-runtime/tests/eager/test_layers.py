# SPDX-License-Identifier: Apache-2.0
"""What the layers of models ask for beyond the op tables runs natively and as on the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F
from compare import mismatch

CONVOLUTIONS = {
    "line": (F.conv1d, (2, 3, 13), (4, 3, 3), {"padding": 2, "dilation": 2}),
    "grouped": (F.conv2d, (2, 6, 8, 9), (4, 3, 2, 3), {"groups": 2, "padding": (0, 2)}),
    "depthwise": (F.conv1d, (3, 5, 12), (5, 1, 4), {"padding": 3, "groups": 5}),
    "strided": (F.conv2d, (1, 3, 70, 33), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    "volume": (F.conv3d, (2, 2, 4, 5, 6), (3, 2, 2, 1, 3), {"stride": (1, 2, 1)}),
    "transposed": (
        F.conv_transpose2d,
        (2, 4, 5, 6),
        (4, 3, 3, 2),
        {"stride": 2, "padding": 1, "output_padding": (1, 0), "groups": 2},
    ),
    "transposed and cropped": (F.conv_transpose1d, (1, 2, 9), (2, 2, 2), {"padding": 3}),
}


@pytest.fixture(autouse=True)
def native():
    """Every test here runs without a fallback."""
    torch.spyre.reset_fallbacks()
    yield
    assert torch.spyre.fallbacks() == {}


def held(tensor):
    return tensor.detach().to("spyre").requires_grad_(tensor.requires_grad)


def assert_same(actual, expected, tolerance=1e-5):
    assert mismatch(actual, expected, rtol=tolerance, atol=tolerance, half=False) is None


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_and_its_gradients(case):
    run, size, weight_size, settings = CONVOLUTIONS[case]
    torch.manual_seed(0)
    # Small integers are exact in the matrix units.
    draw = [torch.randint(-4, 5, s).float().requires_grad_() for s in (size, weight_size)]
    outputs = weight_size[1] * settings.get("groups", 1) if "transpose" in run.__name__ else None
    draw.append(torch.randn(outputs or weight_size[0]).requires_grad_())
    mine = [held(t) for t in draw]
    expected, actual = run(*draw, **settings), run(*mine, **settings)
    assert_same(actual.detach(), expected.detach())
    grad = torch.randint(-4, 5, expected.shape).float()
    expected.backward(grad)
    actual.backward(grad.to("spyre"))
    for a, b in zip(mine, draw, strict=True):
        assert_same(a.grad, b.grad)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1,), (5,), (4, 33), (40, 6), (2, 100, 3)])
def test_sort_is_stable(shape, descending):
    floats = torch.randint(-3, 4, shape).float()
    floats.view(-1)[::5] = math.nan
    floats.view(-1)[1::7] = -math.inf if descending else math.inf
    for x in (floats, floats.nan_to_num(0, 3, -3).long(), floats > 0):
        for dim in range(x.dim()):
            expected = x.sort(dim=dim, descending=descending, stable=True)
            assert_same(x.to("spyre").sort(dim=dim, descending=descending, stable=True), expected)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 3, 8])
def test_topk(kept, largest):
    x = torch.randperm(6 * 8 * 3).view(6, 8, 3)
    for tensor in (x, x.half(), x.transpose(0, 1).contiguous().transpose(0, 1)):
        expected = tensor.topk(kept, 1, largest=largest)
        assert_same(tensor.to("spyre").topk(kept, 1, largest=largest), expected)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 6)])
def test_batch_norm(shape, training):
    torch.manual_seed(0)
    layer = [torch.nn.BatchNorm1d, torch.nn.BatchNorm1d, torch.nn.BatchNorm2d][len(shape) - 2](3)
    torch.nn.init.normal_(layer.weight)
    layer.running_var.uniform_(0.5, 2)
    layer.running_mean.normal_()
    layer.train(training)
    state = {k: v.clone() for k, v in layer.state_dict().items()}
    mine = type(layer)(3).train(training).to("spyre")
    mine.load_state_dict(state)
    x, grad = torch.randn(shape, requires_grad=True), torch.randn(shape)
    y = held(x)
    expected, actual = layer(x), mine(y)
    expected.backward(grad)
    actual.backward(grad.to("spyre"))
    assert_same(actual.detach(), expected.detach())
    assert_same(y.grad, x.grad)
    for a, b in zip(mine.parameters(), layer.parameters(), strict=True):
        assert_same(a.grad, b.grad)
    for a, b in zip(mine.buffers(), layer.buffers(), strict=True):
        assert_same(a, b)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
        {"kernel_size": (2, 3), "dilation": (1, 2), "padding": (1, 0), "stride": 1},
    ],
)
def test_max_pool(settings):
    x = torch.randn(2, 3, 10, 11, requires_grad=True)
    y = held(x)
    expected = F.max_pool2d(x, **settings, return_indices=True)
    actual = F.max_pool2d(y, **settings, return_indices=True)
    assert_same([t.detach() for t in actual], [t.detach() for t in expected])
    grad = torch.randn(expected[0].shape)
    expected[0].backward(grad)
    actual[0].backward(grad.to("spyre"))
    assert_same(y.grad, x.grad)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(reduction, weighted):
    x = torch.randn(7, 5, requires_grad=True)
    target = torch.tensor([0, 4, 2, -100, 1, -100, 3])
    weight = torch.rand(5) if weighted else None
    y = held(x)
    expected = F.cross_entropy(x, target, weight, reduction=reduction)
    mine = None if weight is None else weight.to("spyre")
    actual = F.cross_entropy(y, target.to("spyre"), mine, reduction=reduction)
    assert_same(actual.detach(), expected.detach())
    expected.sum().backward()
    actual.sum().backward()
    assert_same(y.grad, x.grad)


@pytest.fixture
def pair():
    """The same numbers on the CPU and on the device."""
    x = torch.arange(12).view(3, 4)
    return x, x.to("spyre")


def test_rolls_and_ranges(pair):
    x, y = pair
    assert_same(y.roll(5), x.roll(5))
    assert_same(y.roll((1, -1), (0, 1)), x.roll((1, -1), (0, 1)))
    assert_same(torch.eye(3, 5, device="spyre"), torch.eye(3, 5))
    assert_same(torch.arange(0, 9, 2.0, device="spyre"), torch.arange(0, 9, 2.0))


def test_comparisons_of_each_with_each(pair):
    x, y = pair
    assert_same(torch.isin(y, y[0]), torch.isin(x, x[0]))
    assert torch.equal(y, x.to("spyre"))
    assert not torch.equal(y, y + 1)
    experts = torch.randint(0, 8, (50,), dtype=torch.int32)
    expected = torch.histc(experts.float(), bins=8, min=0, max=7).int()
    assert_same(torch.histc(experts.to("spyre"), bins=8, min=0, max=7), expected)


def test_weight_norm():
    torch.manual_seed(0)
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(3, 4, 5))
    z = torch.randint(-4, 5, (2, 3, 9)).float()
    expected = layer(z).detach()
    # Sums of 15 products of a weight, rounded to ten bits, and up to 4.
    assert_same(layer.to("spyre")(z.to("spyre")).detach(), expected, 2e-2)


def test_jagged_tensors():
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    jagged = torch.nested.nested_tensor(parts, device="spyre", layout=torch.jagged)
    assert_same((jagged * 2).values(), torch.cat(parts) * 2)


def test_dropout_follows_the_device_seed():
    x = torch.ones(100, 65, device="spyre", requires_grad=True)
    torch.spyre.manual_seed(3)
    first = F.dropout(x, 0.25)
    torch.manual_seed(9)
    torch.spyre.manual_seed(3)
    assert torch.equal(F.dropout(x, 0.25), first)
    assert set(first.cpu().unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs((first == 0).float().mean().item() - 0.25) < 0.03
    first.sum().backward()
    assert torch.equal(x.grad, first)
    assert not F.dropout(x, 1.0).any()


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 6), (1, 6, 1, 1)])
def test_group_norm(shape):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(shape), torch.randn(6), torch.randn(6)
    assert_same(
        F.group_norm(held(x), 3, held(weight), held(bias)), F.group_norm(x, 3, weight, bias)
    )
