# SPDX-License-Identifier: Apache-2.0
"""Environment variables mean what the API page says; a bad value is an error that says so."""

import os
import textwrap

import pytest

WORK = """
    import torch, torch_spyre
    torch.manual_seed(0)
    a = torch.randn(96, 200).half().to("spyre")
    b = torch.randn(200, 130).half().to("spyre")
    gelu = torch.nn.functional.gelu
    f = torch.compile(lambda a, b: gelu(a @ b).softmax(-1).sum(0), backend="spyre")
    torch.manual_seed(0)
    print(f(a, b).cpu().tolist())
    print(torch.nn.functional.layer_norm(a, (200,)).sum(1).cpu().tolist())
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SENCORES", "0"),
        ("SENCORES", "33"),
        ("SENCORES", "many"),
        ("LX_PLANNING", "perhaps"),
        ("DXP_LX_FRAC_AVAIL", "1.5"),
        ("DXP_LX_FRAC_AVAIL", "x"),
        ("AIU_WORLD_SIZE", "-1"),
        ("AIU_WORLD_SIZE", "two"),
        ("SPYRE_DEVICES", "0,zero"),
        ("SPYRE_DEVICES", "5"),
        ("FLEX_DEVICE", "GPU"),
        ("TORCH_SPYRE_DOWNCAST_WARN", "often"),
        ("SPYRE_INDUCTOR_LOG_LEVEL", "LOUD"),
        ("SPYRE_FALLBACK", "sometimes"),
        ("SPYRE_LOG_FILE", "/no/such/directory/log.txt"),
        ("TORCH_SPYRE_DEBUG", "loud"),
        ("TORCH_SENDNN_LOG", "chatty"),
        ("DT_DEEPRT_VERBOSE", "-2"),
        ("DTLOG_LEVEL", "shout"),
    ],
)
def test_a_bad_value_names_the_variable_and_the_value(python, name, value):
    done = python(
        """
        import torch
        assert torch.ones(2).sum() == 2
        try:
            x = torch.ones(2, 2, device="spyre")
            torch.linalg.det(x)
            x @ x
            torch.compile(lambda x: x + 1, backend="spyre")(x)
        except Exception as error:
            print(type(error).__name__, str(error))
        else:
            print("no error")
        """,
        SPYRE_INDUCTOR_LOG="1",
        **{name: value},
    )
    assert name in done.out
    assert value.split(",")[-1] in done.out


def test_results_do_not_depend_on_cores_planning_or_threads(python):
    one_thread = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
    work = textwrap.dedent(WORK)
    expected = python(work).out
    for code, setting in (
        (work, {"SENCORES": "1"}),
        (work, {"SENCORES": "2", "LX_PLANNING": "1", "DXP_LX_FRAC_AVAIL": "1.0"}),
        (one_thread + work, {"SENCORES": "7", "LX_PLANNING": "1"}),
        (work, {"LX_PLANNING": "1", "DXP_LX_FRAC_AVAIL": "0.01", "OMP_NUM_THREADS": "1"}),
        (work, {"FLEX_DEVICE": "VF", "SENCORES": "31"}),
    ):
        assert python(code, **setting).out == expected, setting


def test_settings_reach_the_config_module(python):
    python(
        """
        import torch
        from torch_spyre._inductor.config import compiler_config
        config = compiler_config()
        assert config.cores == 5
        assert config.lx_planning is True
        assert config.lx_bytes == (2 << 20) // 4
        """,
        SENCORES="5",
        LX_PLANNING="1",
        DXP_LX_FRAC_AVAIL="0.25",
    )


def test_cores_reach_the_device(python):
    python(
        """
        from torch_spyre.device.interface import SpyreInterface
        assert SpyreInterface.get_device_properties(0).multi_processor_count == 5
        """,
        SENCORES="5",
    )


def test_fallbacks_can_be_made_errors(python):
    python(
        """
        import torch
        x = torch.eye(3).to("spyre")
        try:
            torch.linalg.det(x)
        except RuntimeError as error:
            text = str(error)
        else:
            raise AssertionError("no error")
        assert "SPYRE_FALLBACK" in text and "det" in text and "float32[3, 3]" in text, text
        """,
        SPYRE_FALLBACK="error",
    )


def test_the_compiler_s_log_goes_to_the_file(python, tmp_path):
    log = tmp_path / "log.txt"
    code = """
        import torch
        x = torch.ones(64, 64, dtype=torch.float16, device="spyre")
        torch.compile(lambda x: (x * 2).softmax(-1), backend="spyre")(x)
    """
    done = python(
        code,
        SPYRE_INDUCTOR_LOG="1",
        SPYRE_INDUCTOR_LOG_LEVEL="DEBUG",
        SPYRE_LOG_FILE=str(log),
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert log.read_text().strip()
    assert "softmax" not in done.err or log.stat().st_size > 0
    quiet = python(code, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache2"))
    assert "spyre_inductor" not in quiet.err


def test_mock_devices_are_as_many_as_the_world(python):
    python(
        "import torch; assert torch.spyre.device_count() == 3",
        FLEX_DEVICE="MOCK",
        AIU_WORLD_SIZE="3",
    )


def test_foreign_variables_are_left_alone(python):
    python(
        "import torch; assert torch.ones(2, device='spyre').sum().item() == 2",
        TORCH_SENDNN_LOG="CRITICAL",
        DT_DEEPRT_VERBOSE="-1",
        DTLOG_LEVEL="error",
        TORCH_SPYRE_DEBUG="1",
    )
