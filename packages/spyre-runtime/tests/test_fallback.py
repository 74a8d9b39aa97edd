# SPDX-License-Identifier: Apache-2.0
"""The CPU fallback: right answers, known to the user, refused where it cannot be right."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from tensor_cases import equal, values

# Operators that no device kernel is planned for, so that these tests keep testing the fallback.
NAME = "aten::kthvalue.values"


def take_fallback(x):
    return torch.kthvalue(x, 1)


@pytest.fixture
def counted():
    torch.spyre.reset_fallbacks()
    return torch.spyre.fallbacks


def test_warned_once_counted_each_time(run_python, counted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.tensor([3.0, 1.0]).to("spyre")
        assert take_fallback(x)[0].item() == 1.0
        take_fallback(x)
    assert counted()[NAME] == 2
    torch.spyre.reset_fallbacks()
    assert counted() == {}
    out = run_python("""
        x = torch.tensor([3.0, 1.0]).to("spyre")
        for _ in range(3):
            torch.kthvalue(x, 1)
        print(torch.spyre.fallbacks())
    """)
    assert out.count("UserWarning: aten::kthvalue.values has no kernel on device spyre") == 1
    assert "{'aten::kthvalue.values': 3}" in out


def test_no_warning_of_a_call_that_fails(counted):
    x = torch.ones(3).to("spyre")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="lambda must be"):
            torch.nn.functional.softshrink(x, -1.0)
    assert counted() == {}


def test_the_environment_variable(monkeypatch):
    x = torch.tensor([3.0, 1.0]).to("spyre")
    monkeypatch.setenv("SPYRE_FALLBACK", "error")
    with pytest.raises(NotImplementedError, match=r"kthvalue.*float32\[2\].*SPYRE_FALLBACK=error"):
        take_fallback(x)
    monkeypatch.setenv("SPYRE_FALLBACK", "silent")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take_fallback(x)
    monkeypatch.setenv("SPYRE_FALLBACK", "maybe")
    with pytest.raises(ValueError, match='SPYRE_FALLBACK is "maybe"; allowed are warn'):
        take_fallback(x)


@pytest.mark.usefixtures("quiet_fallback")
class TestResults:
    def test_several_results(self):
        source = values((5, 70), torch.float32)
        found = torch.kthvalue(source.to("spyre"), 3, dim=1)
        expected = torch.kthvalue(source, 3, dim=1)
        assert equal(found.values, expected.values)
        assert found.indices.device.type == "spyre"
        assert equal(found.values, source.gather(1, found.indices.cpu()[:, None])[:, 0])

    def test_out_is_resized_and_returned(self):
        x = values((5, 70), torch.float32).to("spyre")
        target = torch.empty(0, device="spyre")
        index = torch.empty(0, dtype=torch.int64, device="spyre")
        found = torch.kthvalue(x, 3, dim=1, out=(target, index))
        assert found.values is target or found.values.data_ptr() == target.data_ptr()
        assert equal(target, torch.kthvalue(x.cpu(), 3, dim=1).values)

    def test_out_of_any_strides_gets_the_result(self):
        # The CPU's own kernel takes the out tensor of either operator for a contiguous one.
        source = values((2, 4, 4, 4), torch.float32)
        for run in (
            lambda x, **out: torch.nn.functional.avg_pool3d(x, 2, **out),
            lambda x, **out: torch.narrow_copy(x, 1, 1, 2, **out),
        ):
            expected = run(source)
            base = torch.full((*reversed(expected.shape), 2), 7.0, device="spyre")
            out = base[..., 1].permute(3, 2, 1, 0)
            run(source.to("spyre"), out=out)
            assert equal(out, expected)
            assert (base[..., 0] == 7).all()

    def test_out_that_is_resized_has_the_strides_of_the_cpu(self):
        matrix = torch.eye(3) * 2 + 0.5
        expected = torch.cholesky_inverse(matrix, out=torch.empty(0))
        found = torch.cholesky_inverse(matrix.to("spyre"), out=torch.empty(0, device="spyre"))
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found.cpu(), expected)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_without_a_cpu_kernel_is_computed_in_float32(self, dtype):
        source = values((1, 2, 4, 4, 4), dtype)
        pool = torch.nn.functional.avg_pool3d
        x = source.to("spyre").requires_grad_()
        found = pool(x, 2)
        assert found.dtype == dtype
        torch.testing.assert_close(found.cpu().float(), pool(source.float(), 2), rtol=1e-2, atol=1)
        found.sum().backward()
        assert x.grad.dtype == dtype
        assert (x.grad == 0.125).all()
        target = torch.tensor([0, 1], device="spyre")
        loss = torch.nn.functional.multi_margin_loss(x[0, :, 0, 0].detach(), target)
        assert loss.dtype == dtype
        # What a float32 kernel refuses stays refused.
        with pytest.raises(RuntimeError, match="(?i)low precision|half|bfloat16"):
            torch.linalg.inv(torch.eye(2, dtype=dtype, device="spyre"))

    def test_halves_beyond_the_reach_of_the_hosts(self):
        # SEN169 reaches 2^33; the arguments and the result lie between that and 65504.
        large = torch.full((1, 1, 2, 2, 2), 60000.0).half().to("spyre") * 64
        found = torch.nn.functional.avg_pool3d(large, 2) / 64
        assert found.cpu().item() == torch.tensor(60000.0).half().to("spyre").cpu().item()
        infinite = torch.full((1, 1, 2, 2, 2), -math.inf).half().to("spyre")
        assert torch.nn.functional.avg_pool3d(infinite, 2).cpu().item() == -math.inf

    def test_in_place_through_views(self):
        source = values((5, 70), torch.float32)
        x = source.to("spyre")
        view = x[1:4, ::3]
        assert view.erfinv_() is view
        source[1:4, ::3].erfinv_()
        assert torch.equal(x.cpu().nan_to_num(7.0, 8.0, 9.0), source.nan_to_num(7.0, 8.0, 9.0))

    def test_tensor_lists(self):
        sources = [values((3, 70), torch.float32, seed=i) for i in range(3)]
        devices = [s.to("spyre") for s in sources]
        torch._foreach_mul_(devices, 2.0)
        for device, source in zip(devices, sources, strict=True):
            assert equal(device, source * 2)
        for found, source in zip(torch._foreach_neg(devices), sources, strict=True):
            assert equal(found, source * -2)

    def test_optional_tensor_lists(self):
        source = values((5, 6, 70), torch.float32)
        x = source.to("spyre")
        rows = torch.tensor([0, 4, 2])
        columns = torch.tensor([1, 1, 5])
        assert equal(x[rows.to("spyre"), :, columns.to("spyre")], source[rows, :, columns])
        assert equal(x[rows], source[rows])  # indices may stay on the CPU
        x.index_put_((rows.to("spyre"),), torch.zeros(3, 6, 70, device="spyre"))
        source[rows] = 0
        assert equal(x, source)
        mask = source[..., 0] > 2
        assert equal(x[mask.to("spyre")], source[mask])

    def test_memory_formats_of_results(self):
        source = values((2, 3, 8, 8), torch.float32).contiguous(memory_format=torch.channels_last)
        found = torch.nn.functional.interpolate(source.to("spyre"), scale_factor=2)
        assert equal(found, torch.nn.functional.interpolate(source, scale_factor=2))
        assert found.is_contiguous(memory_format=torch.channels_last)

    def test_empty_and_zero_dim(self):
        assert torch.kthvalue(torch.tensor(3.0).to("spyre"), 1).values.item() == 3.0
        assert torch.histc(torch.empty(0).to("spyre"), 4).shape == (4,)
        assert torch.nonzero(torch.zeros(3).to("spyre")).shape == (0, 1)
        assert torch.unique(torch.tensor([3, 1, 3]).to("spyre")).tolist() == [1, 3]

    def test_operators_that_pytorch_refuses_other_devices(self):
        for periodic in (True, False):
            found = torch.kaiser_window(8, periodic, device="spyre")
            assert equal(found, torch.kaiser_window(8, periodic))
        x = torch.tensor([[1, 2, 2], [3, 3, 1]])
        out = (torch.empty(0, dtype=x.dtype), torch.empty(0, dtype=x.dtype))
        device_out = tuple(t.to("spyre") for t in out)
        torch.mode(x, out=out)
        torch.mode(x.to("spyre"), out=device_out)
        assert equal(device_out[0], out[0])

    def test_factories(self):
        assert torch.tril_indices(3, 3, device="spyre").device.type == "spyre"
        assert equal(torch.linspace(0, 1, 5, device="spyre"), torch.linspace(0, 1, 5))
        assert equal(torch.hann_window(8, device="spyre"), torch.hann_window(8))

    def test_scalars_and_zero_dim_cpu_tensors(self):
        x = torch.tensor([1.0, 2.0]).to("spyre")
        assert equal(torch.xlogy(x, torch.tensor(2.0)), torch.xlogy(x.cpu(), torch.tensor(2.0)))
        assert equal(x * torch.tensor(3.0, dtype=torch.float64), x.cpu() * 3)
        assert equal(x + 1.5, x.cpu() + 1.5)

    def test_written_arguments_may_alias(self):
        source = values((4, 70), torch.float32)
        x = source.to("spyre")
        x[:2].lerp_(x[2:], 0.5)
        source[:2].lerp_(source[2:], 0.5)
        assert equal(x, source)

    def test_quantised_and_sparse_results_are_refused(self):
        x = torch.eye(3, device="spyre")
        with pytest.raises((NotImplementedError, RuntimeError)):
            x.to_sparse()

    def test_results_without_a_device_format_are_refused(self):
        x = torch.ones(4, device="spyre")
        with pytest.raises(NotImplementedError, match="complex64"):
            torch.fft.fft(x)
        with pytest.raises(NotImplementedError, match="(?i)float64|double"):
            torch.bincount(torch.tensor([1, 2], device="spyre"), weights=None).double()

    def test_mixed_devices_are_refused(self):
        x = torch.ones(3, device="spyre")
        with pytest.raises(RuntimeError, match="same device"):
            torch.xlogy(x, torch.ones(3))
        with pytest.raises(RuntimeError, match="same device"):
            torch.cat([x, torch.ones(3)])

    def test_internal_overlap_is_refused_as_on_the_cpu(self):
        x = torch.ones(3, device="spyre").expand(4, 3)
        with pytest.raises(RuntimeError, match="single memory location"):
            x.erfinv_()

    def test_errors_are_those_of_the_cpu(self):
        x = torch.ones(3, device="spyre")
        with pytest.raises(RuntimeError, match="(?i)selected number k out of range"):
            torch.kthvalue(x, 9)
        with pytest.raises(IndexError):
            torch.kthvalue(x, 1, dim=4)

    def test_seen_by_the_profiler(self):
        x = torch.tensor([3.0, 1.0]).to("spyre")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            take_fallback(x)
        assert f"spyre::fallback::{NAME}" in {event.key for event in profile.key_averages()}

    def test_view_operators_stay_views(self):
        x = torch.zeros(3, 4, device="spyre")
        x.swapaxes(0, 1)[2].fill_(1)
        assert x.cpu()[:, 2].tolist() == [1, 1, 1]


@pytest.mark.usefixtures("quiet_fallback")
class TestOperatorsThatNeedTheirOwnWay:
    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.parametrize("bias", [False, True])
    def test_convolutions_forward_and_backward(self, transposed, bias):
        torch.manual_seed(0)
        kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
        layer = kind(4, 6, 3, stride=2, padding=1, groups=2, bias=bias)
        x = torch.randn(2, 4, 9, 9, requires_grad=True)
        expected = layer(x)
        expected.square().mean().backward()
        grads = [x.grad.clone(), *(p.grad.clone() for p in layer.parameters())]
        layer.zero_grad()
        layer.to("spyre")
        there = x.detach().to("spyre").requires_grad_()
        found = layer(there)
        found.square().mean().backward()
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-2, atol=1e-2)
        for found_grad, grad in zip(
            [there.grad, *(p.grad for p in layer.parameters())], grads, strict=True
        ):
            torch.testing.assert_close(found_grad.cpu(), grad, rtol=1e-2, atol=1e-2)

    @pytest.mark.parametrize("kind", [torch.nn.Conv1d, torch.nn.Conv3d])
    def test_other_convolutions(self, kind):
        layer = kind(2, 3, 3)
        x = torch.randn(2, 2, *(7,) * (1 if kind is torch.nn.Conv1d else 3))
        expected = layer(x)
        assert torch.allclose(layer.to("spyre")(x.to("spyre")).cpu(), expected, atol=1e-2)

    @pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
    @pytest.mark.parametrize("bias", [False, True])
    def test_recurrent_networks_forward_and_backward(self, kind, bias):
        torch.manual_seed(0)
        layer = kind(5, 7, num_layers=2, bias=bias, batch_first=True)
        x = torch.randn(3, 4, 5, requires_grad=True)
        expected, _ = layer(x)
        expected.square().sum().backward()
        grads = [x.grad.clone(), *(p.grad.clone() for p in layer.parameters())]
        layer.zero_grad()
        layer.to("spyre")
        there = x.detach().to("spyre").requires_grad_()
        found, _ = layer(there)
        found.square().sum().backward()
        torch.testing.assert_close(found.cpu(), expected, rtol=2e-2, atol=2e-2)
        for found_grad, grad in zip(
            [there.grad, *(p.grad for p in layer.parameters())], grads, strict=True
        ):
            torch.testing.assert_close(found_grad.cpu(), grad, rtol=5e-2, atol=5e-2)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_convolutions_are_computed_in_float32(self, dtype):
        x, weight = values((1, 4, 5, 5), dtype), values((1, 4, 2, 3), dtype)
        parts = {"stride": 2, "padding": 1, "dilation": (2, 3)}
        found = torch.nn.functional.conv2d(x.to("spyre"), weight.to("spyre"), **parts)
        assert found.dtype == dtype
        expected = torch.nn.functional.conv2d(x.float(), weight.float(), **parts)
        torch.testing.assert_close(found.cpu().float(), expected, rtol=2e-2, atol=2e-2)

    @pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float16])
    def test_histograms_of_dtypes_without_a_cpu_kernel(self, dtype):
        found = torch.histc(torch.tensor([0, 1, 1, 3]).to("spyre", dtype), bins=4, min=0, max=3)
        assert found.dtype == dtype
        assert found.tolist() == [1, 2, 0, 1]

    @pytest.mark.parametrize("norm", [torch.nn.BatchNorm2d, torch.nn.InstanceNorm2d])
    def test_running_statistics_are_updated(self, norm):
        x = torch.randn(4, 3, 5, 5)
        host = norm(3, track_running_stats=True)
        device = norm(3, track_running_stats=True).to("spyre")
        host(x)
        device(x.to("spyre"))
        torch.testing.assert_close(device.running_mean.cpu(), host.running_mean)
        torch.testing.assert_close(device.running_var.cpu(), host.running_var)
