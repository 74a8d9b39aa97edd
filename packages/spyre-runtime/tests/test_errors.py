# SPDX-License-Identifier: Apache-2.0
"""Bad input and unlucky moments give Python exceptions; nothing ends the process."""

from __future__ import annotations

import threading

import pytest
import torch
from tensor_cases import REFUSED_DTYPES


@pytest.mark.parametrize("dtype", REFUSED_DTYPES, ids=str)
def test_dtypes_without_a_device_format_are_refused_with_advice(dtype):
    name = str(dtype).removeprefix("torch.")
    for use in (
        lambda: torch.empty(3, dtype=dtype, device="spyre"),
        lambda: torch.empty_strided((3,), (1,), dtype=dtype, device="spyre"),
        lambda: torch.empty(3, dtype=dtype).to("spyre"),
    ):
        with pytest.raises(NotImplementedError, match=rf"dtype {name} has no format.*(cast|split)"):
            use()


def test_float64_from_the_cpu_needs_a_cast_and_python_numbers_do_not():
    double = torch.ones(3, dtype=torch.float64)
    with pytest.raises(NotImplementedError, match=r"\.float\(\).*\.half\(\)"):
        double.to("spyre")
    assert double.to("spyre", torch.float16).dtype == torch.float16
    target = torch.zeros(3, device="spyre")
    target.copy_(double)
    assert target.cpu().tolist() == [1, 1, 1]
    assert torch.tensor(1.5, device="spyre").item() == 1.5
    assert torch.full((2,), 2.5, device="spyre").tolist() == [2.5, 2.5]


def test_layouts_and_pinning():
    with pytest.raises(NotImplementedError, match="(?i)sparse|strided"):
        torch.empty(3, layout=torch.sparse_coo, device="spyre")
    with pytest.raises(RuntimeError, match="(?i)pin"):
        torch.empty(3, device="spyre", pin_memory=True)
    with pytest.raises(RuntimeError, match="negative"):
        torch.empty(-3, device="spyre")
    with pytest.raises(RuntimeError, match="strides"):
        torch.empty_strided((3,), (1, 1), device="spyre")
    with pytest.raises((TypeError, RuntimeError), match="(?i)can't convert|cpu"):
        torch.ones(3, device="spyre").numpy()


def test_device_enumeration_errors(run_python):
    cases = {"AIU_WORLD_SIZE": "many", "SPYRE_DEVICES": "x", "FLEX_DEVICE": "NO"}
    for variable, value in cases.items():
        out = run_python(
            """
            assert torch.ones(2).sum() == 2
            try:
                torch.ones(2, device="spyre")
            except (ValueError, RuntimeError) as error:
                print("caught", error)
            """,
            **{variable: value},
        )
        assert "caught" in out
        assert variable in out
        assert value in out


def test_a_bad_downcast_variable(run_python):
    out = run_python(
        """
        import spyre_runtime
        try:
            spyre_runtime.get_downcast_warning()
        except ValueError as error:
            print(error)
        """,
        TORCH_SPYRE_DOWNCAST_WARN="perhaps",
    )
    assert 'TORCH_SPYRE_DOWNCAST_WARN is "perhaps"; allowed are 1' in out


def test_downcast_warning_switch(run_python):
    import spyre_runtime

    assert "False" in run_python(
        "print(spyre_runtime.get_downcast_warning())", TORCH_SPYRE_DOWNCAST_WARN="0"
    )
    before = spyre_runtime.get_downcast_warning()
    spyre_runtime.set_downcast_warning(False)
    assert spyre_runtime.get_downcast_warning() is False
    spyre_runtime.set_downcast_warning(True)
    assert spyre_runtime.get_downcast_warning() is True
    spyre_runtime.set_downcast_warning(before)
    with pytest.raises(TypeError):
        spyre_runtime.set_downcast_warning("no")


def test_a_fork_after_use_says_what_to_do(run_python):
    out = run_python("""
        import os, warnings
        warnings.simplefilter("ignore")
        x = torch.ones(3, device="spyre")
        child = os.fork()
        if child == 0:
            try:
                torch.ones(3, device="spyre")
            except RuntimeError as error:
                print("create:", error, flush=True)
            try:
                x.cpu()
            except RuntimeError as error:
                print("read:", error, flush=True)
            torch.manual_seed(0)
            del x
            os._exit(7)
        _, status = os.waitpid(child, 0)
        print("status", os.waitstatus_to_exitcode(status))
        print(x.sum().item())
    """)
    assert "create: cannot use spyre" in out
    assert "spawn" in out
    assert "read: " in out
    assert "status 7" in out
    assert "3.0" in out


def test_a_fork_before_use_works(run_python):
    out = run_python("""
        import os
        assert torch.spyre.device_count() == 1
        child = os.fork()
        value = torch.ones(3, device="spyre").cpu().sum().item()
        if child == 0:
            os._exit(int(value))
        _, status = os.waitpid(child, 0)
        print("child", os.waitstatus_to_exitcode(status), "parent", value)
    """)
    assert "child 3 parent 3.0" in out


def test_leaving_with_work_queued(run_python):
    run_python("""
        x = torch.ones(2000, 2000, dtype=torch.float16, device="spyre")
        for _ in range(20):
            x = x.t().contiguous()
        torch.keep = x
        with torch.spyre.Stream():
            torch.other = x.clone()
        torch.event = torch.spyre.Event()
        torch.event.record()
    """)


def test_use_while_the_interpreter_goes_down(run_python):
    run_python("""
        import atexit, warnings
        warnings.simplefilter("ignore")
        x = torch.ones(70, device="spyre")
        class Late:
            def __del__(self, x=x):
                y = x.clone()
                assert y.cpu().sum().item() == 70
        late = Late()
        atexit.register(lambda: x.clone().cpu())
    """)


def test_errors_that_nothing_waits_for_are_printed_at_exit(run_python):
    out = run_python("""
        x = torch.ones(5, 70, device="spyre")
        x.index_select(0, torch.tensor([1, 77], device="spyre"))
    """)
    assert "work that was still queued on spyre:0 at exit failed: " in out
    assert "77" in out


def test_a_tensor_of_more_bytes_than_can_be_addressed_names_the_limit():
    too_many = 1 << 36
    with pytest.raises(torch.OutOfMemoryError, match=f"larger than the {too_many - 1} bytes"):
        torch.empty(too_many, dtype=torch.int8, device="spyre")


@pytest.mark.parametrize("repeat", range(3))
def test_leaving_right_after_backward(run_python, repeat):
    run_python("""
        import warnings
        warnings.simplefilter("ignore")
        x = torch.ones(3, device="spyre", requires_grad=True)
        (x * 2).sum().backward()
    """)


def test_errors_in_backward_threads(run_python):
    out = run_python("""
        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, grad):
                raise KeyError("lost")
        x = torch.ones(3, device="spyre", requires_grad=True)
        try:
            Bad.apply(x).sum().backward()
        except KeyError as error:
            print("caught", error)
        print(torch.ones(2, device="spyre").cpu().sum().item())
    """)
    assert "caught 'lost'" in out
    assert "2.0" in out


def test_errors_in_threads_stay_there():
    errors = []

    def work():
        try:
            torch.empty(3, dtype=torch.float64, device="spyre")
        except NotImplementedError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 4


def test_programs_refuse_what_does_not_fit():
    import spyre_runtime

    with pytest.raises(ValueError, match="(?i)line|spyre.program"):
        spyre_runtime.Program("nonsense")
    program = spyre_runtime.Program(
        'spyre.program 1\nname "copy"\n'
        "buffer b0 arg float32 size [4] stride [1]\nbuffer b1 arg float32 size [4] stride [1]\n"
        'stage "copy"\n  loop 4\n  access a0 b0 stride [1] offset 0\n'
        "  access a1 b1 stride [1] offset 0\n  phase\n    %0 = load a0\n    store a1 %0\n"
    )
    x = torch.arange(4.0).to("spyre")
    y = torch.zeros(4).to("spyre")
    program.launch([x, y])
    assert y.cpu().tolist() == [0, 1, 2, 3]
    assert "copy" in program.text
    assert program.name == "copy"
    assert len(program.bound_text([x, y])) > 0
    with pytest.raises(ValueError, match="takes 2 tensors"):
        program.launch([x])
    with pytest.raises(ValueError, match="spyre tensor"):
        program.launch([x, torch.zeros(4)])
    with pytest.raises(ValueError):
        program.launch([x, torch.zeros(2, device="spyre")])
    with pytest.raises(ValueError):
        program.launch([x, torch.zeros(4, dtype=torch.int32, device="spyre")])
    with pytest.raises(ValueError):
        program.launch([])
    with pytest.raises(TypeError):
        program.launch([1, 2])


def test_op_table():
    import spyre_runtime

    table = {name: (result, args) for name, result, args in spyre_runtime.op_table()}
    assert table["add"] == ("F", ["F", "F"])
    assert table["lt"] == ("B", ["F", "F"])
    assert spyre_runtime.program_stats()["launches"] >= 0


def test_debug_logging(run_python):
    code = """
        import warnings
        warnings.simplefilter("ignore")
        torch.kthvalue(torch.ones(3).to("spyre"), 1)
    """
    assert "[spyre]" not in run_python(code)
    out = run_python(code, TORCH_SPYRE_DEBUG="1")
    assert "[spyre] opening spyre:0" in out
    assert "[spyre] fallback to the CPU: aten::kthvalue.values(float32[3]" in out
    out = run_python(code, exit_code=1, TORCH_SPYRE_DEBUG="loud")
    assert 'ValueError: environment variable TORCH_SPYRE_DEBUG is "loud"; allowed are 1' in out
