# SPDX-License-Identifier: Apache-2.0
"""`import torch` makes the device work, lightly; nothing on Spyre's side can break it."""

import pytest
from torch_spyre import _libraries

USE = """
x = torch.ones(4, dtype=torch.float16, device="spyre")
assert torch.spyre.is_available()
assert (x + x).sum().item() == 8
"""


def test_import_torch_alone_makes_the_device_work(run_python):
    run_python("import torch\n" + USE)


def test_autoload_loads_no_compiler_and_opens_no_device(run_python):
    run_python("""
        import sys, torch
        assert "spyre_runtime" in sys.modules
        heavy = [m for m in sys.modules if m.startswith(("torch._dynamo", "torch._inductor"))]
        assert not heavy, heavy
        assert not torch.spyre.is_initialized()
        assert torch.spyre.device_count() == 1
        assert not torch.spyre.is_initialized()
    """)


def test_without_autoload_there_is_no_device(run_python):
    run_python(
        "import torch; assert not hasattr(torch, 'spyre')", TORCH_DEVICE_BACKEND_AUTOLOAD="0"
    )


def test_import_by_hand_works_without_autoload(run_python):
    run_python("import torch, torch_spyre\n" + USE, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_importing_torch_spyre_first_works(run_python, autoload):
    run_python("import torch_spyre, torch\n" + USE, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)


def test_submodules_may_be_imported_first(run_python):
    run_python("from torch_spyre._C import SpyreTensorLayout; import torch\n" + USE)


def test_autoload_may_be_called_again(run_python):
    run_python(
        "import torch, torch_spyre\ntorch_spyre._autoload(); torch_spyre._autoload()\n" + USE
    )


def test_the_public_names_are_attributes_of_the_package(run_python):
    run_python("""
        import torch_spyre
        assert torch_spyre.constants.DEVICE_NAME == "spyre"
        assert torch_spyre._C.DataFormats.SEN169_FP16.elems_per_stick() == 64
        assert {"_C", "constants", "device", "_inductor"} <= set(dir(torch_spyre))
        try:
            torch_spyre.nonsense
        except AttributeError as error:
            assert "nonsense" in str(error)
        else:
            raise AssertionError
    """)


def test_compiling_on_the_cpu_works_beside_the_device(run_python):
    run_python("""
        import torch
        f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.0) + 1, backend="eager")
        assert f(torch.ones(3)).sum() == 6
    """)


def test_an_inductor_worker_gets_the_names_only(run_python):
    run_python(
        """
        import sys, torch
        assert torch.device("spyre:0").type == "spyre"
        assert hasattr(torch, "spyre")
        assert not torch.spyre.is_initialized()
        assert "spyre_inductor" not in sys.modules
        """,
        IS_INDUCTOR_SPAWNED_SUBPROCESS="1",
    )


def test_a_mismatched_sibling_is_one_error_on_use(run_python, fake_distribution):
    out = run_python(
        """
        import torch
        torch.manual_seed(0)
        torch.ones(2, requires_grad=True).sum().backward()
        messages = set()
        for use in (
            lambda: torch.empty(1, device="spyre"),
            lambda: torch.ones(1).to("spyre"),
            lambda: torch.nn.Linear(1, 1).to("spyre"),
            lambda: torch.spyre._lazy_init(),
        ):
            try:
                use()
            except RuntimeError as error:
                messages.add(str(error))
        (message,) = messages
        print(message)
        """,
        "-Werror",
        before=fake_distribution("spyre-runtime", "9.1.0"),
    )
    assert "spyre-runtime 9.1.0 (needs >=0.1,<0.2)" in out
    assert 'pip install "spyre-runtime>=0.1,<0.2"' in out


def test_a_broken_device_is_not_available_and_says_why(run_python, fake_distribution):
    out = run_python(
        """
        import torch
        assert not torch.spyre.is_available()
        assert torch.spyre.device_count() == 0
        try:
            torch.spyre.Stream
        except AttributeError as error:
            assert "spyre-layout 0.0.1" in str(error)
        else:
            raise AssertionError
        """,
        before=fake_distribution("spyre-layout", "0.0.1"),
    )
    assert out.count("RuntimeWarning") >= 1
    assert "spyre-layout 0.0.1 (needs >=0.1,<0.2)" in out


USE_BROKEN = """
import torch
assert torch.ones(2).sum() == 2
torch.manual_seed(1)
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)) == 2
try:
    torch.ones(2, device="spyre")
except RuntimeError as error:
    print("raised", error, "|", type(error.__cause__).__name__)
"""
# What the sibling does when it is imported -> how the error describes it.
BROKEN = {
    "raise ValueError('on purpose')": "ValueError: on purpose",
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    "def (": "SyntaxError: invalid syntax",
    "raise SystemExit(3)": "SystemExit: 3",
    "register = post_import_hooks = None; del register, post_import_hooks": "AttributeError: ",
}


@pytest.mark.parametrize(
    ("sibling", "code"),
    [*(("spyre_runtime", code) for code in BROKEN), ("spyre_inductor", next(iter(BROKEN)))],
)
def test_a_sibling_that_cannot_be_imported_does_not_break_torch(
    run_python, tmp_path, sibling, code
):
    package = tmp_path / "first" / sibling
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    out = run_python(USE_BROKEN, before=package.parent)
    assert f"could not register the device: ImportError: importing {sibling} failed with " in out
    assert BROKEN[code] in out
    name = sibling.replace("_", "-")
    assert f"pip install --force-reinstall --no-deps {name} | ImportError" in out


def _library(package, name):
    (path,) = package.glob(f"{name}*.so")
    return path


@pytest.mark.parametrize(
    ("package", "library"),
    [
        ("spyre_layout", "_core"),
        ("spyre_runtime", "_C"),
        ("spyre_runtime", "libspyre_runtime"),
        ("spyre_runtime", "libspyre_softdev"),
    ],
)
def test_a_library_that_was_cut_short_does_not_end_the_process(
    run_python, copied_package, package, library
):
    folder = copied_package(package)
    path = _library(folder, library)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    out = run_python(USE_BROKEN, before=folder.parent)
    assert f"cannot load libraries that end before their contents do: {path}; " in out
    assert f"pip install --force-reinstall --no-deps {package.replace('_', '-')} |" in out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No module named 'spyre_runtime._C'"),
        (b"", "file too short"),
        (b"these are no instructions\n" * 9, "invalid ELF header"),
    ],
)
def test_a_library_that_is_none(run_python, copied_package, content, reason):
    folder = copied_package("spyre_runtime")
    path = _library(folder, "_C")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    out = run_python(USE_BROKEN, before=folder.parent)
    assert "cannot load the native part of spyre-runtime beside PyTorch 2." in out
    assert reason in out
    assert "pip install --force-reinstall --no-deps spyre-runtime |" in out


def test_any_cut_that_the_loader_would_stumble_over_is_found(tmp_path, copied_package):
    assert _libraries.problem() is None
    whole = _library(copied_package("spyre_runtime"), "_C").read_bytes()
    path = tmp_path / "library.so"
    for length in (16, 63, 64, 65, 200, 1000, len(whole) // 3, len(whole) * 2 // 3):
        path.write_bytes(whole[:length])
        assert not _libraries.is_whole(path)
    for content in (b"", b"no library", whole):  # to be judged by the loader
        path.write_bytes(content)
        assert _libraries.is_whole(path)


def test_a_compiler_that_cannot_be_prepared_leaves_the_cpu_alone(run_python):
    out = run_python("""
        import sys, torch
        sys.modules["spyre_inductor.lowering"] = None  # makes importing it an ImportError
        f = torch.compile(lambda x: torch.relu(x) + 1, backend="aot_eager")
        import torch._inductor.compile_fx
        assert f(torch.ones(2)).sum() == 4
        try:
            torch.compile(lambda x: x + 1, backend="spyre")(torch.ones(2, device="spyre"))
        except Exception as error:
            print("raised", error)
    """)
    assert "RuntimeWarning: torch-spyre could not prepare torch._inductor.compile_fx" in out
    assert "raised" in out
    assert "spyre_inductor.lowering" in out.split("raised", 1)[1]
