# SPDX-License-Identifier: Apache-2.0
"""The API page is true.

What it says in a form that can be read is checked here: names, signatures, types, values, examples.
What it says in words stands in ``PROOFS``, beside the test that would fail if it were not so.
"""

import ast
import doctest
import inspect
import re
import textwrap
from pathlib import Path

import pytest
import torch
import torch_spyre

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "torch_spyre.rst"
BLOCK = re.compile(r"^( *)\.\. code-block:: python\n\n((?:\1 +.*\n|\n)+)", re.MULTILINE)
NAME = re.compile(
    r"^( *)\.\. (function|class|method|attribute|data):: ([\w.]+)(\(.*\))?(?: -> ([\w.]+))?$",
    re.MULTILINE,
)
TYPED = re.compile(r"^( *)\.\. attribute:: (\w+)\n +:type: ([\w\[\]]+)$", re.MULTILINE)
VARIABLE = re.compile(r"^   \* - ``([A-Z_]+)", re.MULTILINE)
TESTS = Path(__file__).parent


def blocks():
    text = PAGE.read_text()
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        yield pytest.param(textwrap.dedent(match[2]), id=f"line{line}")


def entries():
    """Yield (name, kind, signature or "", type of what it returns or "") of the page's entries."""
    owner = ""
    for indent, kind, name, signature, returns in NAME.findall(PAGE.read_text()):
        if not indent:
            owner = name
        yield (f"{owner}.{name}" if indent else name), kind, signature, returns


def names():
    return [(name, kind) for name, kind, _, _ in entries()]


def signatures():
    return [(name, text) for name, kind, text, _ in entries() if text and kind != "data"]


def returned():
    return [(name, returns) for name, _, _, returns in entries() if returns]


def resolve(name):
    target = {"torch": torch, "torch_spyre": torch_spyre}[name.split(".")[0]]
    for part in name.split(".")[1:]:
        target = getattr(target, part)
    return target


class MyModel(torch.nn.Module):
    """The page's model, of which it says nothing more."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 32).half()

    def forward(self, x):
        return torch.relu(self.linear(x))


@pytest.mark.parametrize("code", list(blocks()))
def test_example_runs(code):
    namespace = {
        "torch": torch,
        "torch_spyre": torch_spyre,
        "cpu_tensor": torch.arange(6.0).reshape(2, 3),
        "MyModel": MyModel,
        "inputs": torch.randn(4, 64, dtype=torch.float16, device="spyre"),
        "SpyreTensorLayout": torch_spyre._C.SpyreTensorLayout,
        "DataFormats": torch_spyre._C.DataFormats,
    }
    if ">>>" not in code:
        exec(compile(code, str(PAGE), "exec"), namespace)
        return
    example = doctest.DocTestParser().get_doctest(code, namespace, PAGE.name, str(PAGE), 0)
    report = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert tried
    assert not failed, "".join(report)


def test_all_examples_were_found():
    assert len(list(blocks())) == PAGE.read_text().count(".. code-block:: python") >= 12


@pytest.mark.parametrize(("name", "kind"), list(names()))
def test_name_exists(name, kind):
    target = resolve(name)
    if kind in ("function", "method"):
        assert callable(target)
    if kind == "class":
        assert inspect.isclass(target)
    if kind in ("function", "class", "method"):
        assert (target.__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize(("name", "text"), signatures())
def test_the_signature_is_the_page_s(name, text):
    wanted = ast.parse(f"def f{text}: pass").body[0].args
    first_default = len(wanted.args) - len(wanted.defaults)
    found = [
        parameter
        for parameter in inspect.signature(resolve(name)).parameters.values()
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    assert [parameter.name for parameter in found] == [argument.arg for argument in wanted.args]
    for position, parameter in enumerate(found):
        assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if position < first_default:
            assert parameter.default is parameter.empty
        else:
            assert parameter.default == ast.literal_eval(wanted.defaults[position - first_default])


def instances():
    """What methods and attributes are asked of, by the name of the class."""
    layout = torch_spyre._C.SpyreTensorLayout([4, 128], torch.float16)
    return {
        "torch.spyre.Stream": torch.spyre.Stream(),
        "torch_spyre._C.SpyreTensorLayout": layout,
        "torch_spyre._C.DataFormats": layout.device_dtype,
    }


@pytest.mark.parametrize(("name", "returns"), returned())
def test_what_is_returned_has_the_page_s_type(name, returns):
    owner, _, member = name.rpartition(".")
    asked = instances()
    function = getattr(asked[owner], member) if owner in asked else resolve(name)
    needs_tensor = name.endswith("get_spyre_tensor_layout")
    result = function(torch.ones(2, device="spyre")) if needs_tensor else function()
    types = {"bool": bool, "int": int, "torch.device": torch.device, "Stream": torch.spyre.Stream}
    assert type(result) is types.get(returns, torch_spyre._C.SpyreTensorLayout)


def test_attributes_have_the_page_s_types_and_cannot_be_set():
    text = PAGE.read_text()
    owners = instances()
    checked = 0
    for match in TYPED.finditer(text):
        owner = re.findall(r"^\.\. class:: ([\w.]+)", text[: match.start()], re.MULTILINE)[-1]
        value = getattr(owners[owner], match[2])
        types = {"int": int, "list[int]": list, "DataFormats": torch_spyre._C.DataFormats}
        assert type(value) is types[match[3]]
        with pytest.raises(AttributeError):
            setattr(owners[owner], match[2], value)
        checked += 1
    assert checked == text.count(":type: ") > 0


# Words of the page -> the test that proves them.
PROOFS = {
    "no explicit\n``import torch_spyre`` is needed": (
        "test_device.py::test_questions_about_devices_open_none"
    ),
    "Sets the current Spyre device.": "test_device.py::test_two_devices_keep_tensors_apart",
    "if the Spyre runtime has been initialized": (
        "test_device.py::test_questions_about_devices_open_none"
    ),
    "is not yet exposed on the public": (
        "test_device.py::test_properties_belong_to_the_interface_alone"
    ),
    "Use the PyTorch ``torch.accelerator`` API": (
        "test_device.py::test_seeds_make_random_numbers_repeat"
    ),
    "on the current Spyre device.\n\n   :param int seed": (
        "test_device.py::test_manual_seed_is_for_the_current_device_and_all_for_all"
    ),
    "random numbers on all Spyre devices": (
        "test_device.py::test_manual_seed_is_for_the_current_device_and_all_for_all"
    ),
    "putting it in a\n   ``with`` block sets it as the current stream": (
        "test_streams.py::test_with_makes_a_stream_current_for_the_block"
    ),
    "Accepts ``torch.device``,\n       ``int``, or a string": (
        "test_streams.py::test_a_stream_takes_any_spelling_of_its_device"
    ),
    "Each pool has 32 streams per device,\n       allocated round-robin": (
        "test_streams.py::test_ids_go_round_in_two_pools"
    ),
    "any non-zero value selects the\n       high-priority pool": (
        "test_streams.py::test_ids_go_round_in_two_pools"
    ),
    "Wait for all operations on this stream to complete": (
        "test_streams.py::test_work_on_a_stream_is_done_after_synchronize"
    ),
    "``0`` is the default stream": "test_streams.py::test_the_default_stream_has_id_0",
    "The stream priority class (read-only)": "test_streams.py::test_attributes_are_read_only",
    "calling ``stream(s)`` just returns ``s``": (
        "test_streams.py::test_with_makes_a_stream_current_for_the_block"
    ),
    "Returns the currently active stream": (
        "test_streams.py::test_the_current_stream_belongs_to_the_thread"
    ),
    "synchronizes only that device": "test_streams.py::test_synchronize_takes_any_spelling",
    "The default dtype for Spyre is ``torch.float16``": (
        "test_device.py::test_default_dtype_is_float16_in_practice"
    ),
    'using ``torch.compile`` with the ``"spyre"``\nbackend': (
        "test_models.py::test_a_compiled_family_agrees_with_the_cpu"
    ),
    "Can be constructed in two ways": "test_layouts.py::test_both_constructors_agree",
    "A value of -1 indicates a\n      synthetic or padded dimension": (
        "test_api_page.py::test_a_dimension_without_host_stride_is_minus_one"
    ),
    "Returns the number of elements per stick": ("test_layouts.py::test_each_dtype_has_its_format"),
    "Common values:": "test_layouts.py::test_the_page_s_formats_exist",
    "Sets the ``SpyreTensorLayout`` on a Spyre device tensor": (
        "test_layouts.py::test_another_layout_holds_the_same_values"
    ),
    "Enable or disable float32 → float16 downcast warnings": (
        "test_device.py::test_downcast_warning_is_a_switch"
    ),
}
# The page's environment variables -> the test of what they do. What a bad value does is tested for
# all of them together.
VARIABLES = {
    "TORCH_SPYRE_DEBUG": "test_api_page.py::test_debug_logs_what_the_native_part_does",
    "TORCH_SPYRE_DOWNCAST_WARN": ("test_device.py::test_float32_products_warn_unless_told_not_to"),
    "SPYRE_INDUCTOR_LOG": "test_environment.py::test_the_compiler_s_log_goes_to_the_file",
    "SPYRE_INDUCTOR_LOG_LEVEL": "test_environment.py::test_the_compiler_s_log_goes_to_the_file",
    "SPYRE_LOG_FILE": "test_environment.py::test_the_compiler_s_log_goes_to_the_file",
    "TORCH_SENDNN_LOG": "test_environment.py::test_foreign_variables_are_left_alone",
    "DT_DEEPRT_VERBOSE": "test_environment.py::test_foreign_variables_are_left_alone",
    "DTLOG_LEVEL": "test_environment.py::test_foreign_variables_are_left_alone",
    "SENCORES": "test_environment.py::test_settings_reach_the_config_module",
    "LX_PLANNING": "test_environment.py::test_settings_reach_the_config_module",
    "DXP_LX_FRAC_AVAIL": "test_environment.py::test_settings_reach_the_config_module",
    "AIU_WORLD_SIZE": "test_device.py::test_two_devices_keep_tensors_apart",
    "SPYRE_DEVICES": "test_device.py::test_visible_devices_are_a_selection",
    "FLEX_DEVICE": "test_environment.py::test_mock_devices_are_as_many_as_the_world",
    "IS_INDUCTOR_SPAWNED_SUBPROCESS": (
        "test_api_page.py::test_a_compile_worker_gets_the_names_only"
    ),
    "TORCH_LOGS": "test_api_page.py::test_pytorch_s_own_knobs_work",
    "TORCH_COMPILE_DEBUG": "test_api_page.py::test_pytorch_s_own_knobs_work",
}


@pytest.mark.parametrize("words", PROOFS)
def test_what_the_page_says_in_words_has_its_test(words):
    assert words in PAGE.read_text()
    assert is_test(PROOFS[words])


def test_every_environment_variable_of_the_page_has_its_test():
    assert sorted(VARIABLE.findall(PAGE.read_text())) == sorted(VARIABLES)
    assert all(is_test(test) for test in VARIABLES.values())


def is_test(name):
    file, _, function = name.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)


def test_a_dimension_without_host_stride_is_minus_one():
    layout = torch_spyre._C.SpyreTensorLayout([4, 128], [128, 1], torch.float16, [0, 1, -1])
    assert layout.stride_map[-1] == -1  # one element a stick
    assert layout.device_size[-1] == 64


COMPILE = """
    import torch
    x = torch.ones(4, 64, dtype=torch.float16, device="spyre")
    print(torch.compile(lambda x: x + 1, backend="spyre")(x).sum().item())
"""


def test_debug_logs_what_the_native_part_does(python):
    assert "[spyre] opening spyre:0" in python(COMPILE, TORCH_SPYRE_DEBUG="1").err


def test_a_compile_worker_gets_the_names_only(python):
    done = python(
        """
        import sys, torch
        print(torch.device("spyre"), "spyre_runtime._C" in sys.modules, torch.spyre.device_count())
        """,
        IS_INDUCTOR_SPAWNED_SUBPROCESS="1",
    )
    assert done.out.split() == ["spyre", "False", "1"]


def test_pytorch_s_own_knobs_work(python, tmp_path):
    done = python(
        COMPILE,
        TORCH_LOGS="+inductor",
        TORCH_COMPILE_DEBUG="1",
        TORCH_COMPILE_DEBUG_DIR=str(tmp_path),
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.out.strip() == "512.0"
    assert "torch/_inductor" in done.err
    codes = list(tmp_path.rglob("output_code.py"))
    assert codes
    assert all("spyre" in code.read_text() for code in codes)


def test_the_constant_has_its_value():
    assert torch_spyre.constants.DEVICE_NAME == "spyre"


def test_the_page_that_ships_is_the_page_that_binds():
    spec = PAGE.parents[3] / "shared" / "spec" / "torch_spyre_api.rst"
    if spec.is_file():
        assert PAGE.read_text().rstrip() == spec.read_text().rstrip()


def test_two_tensors_of_the_examples_hold_what_they_say():
    x = torch.tensor([1, 2], dtype=torch.float16, device="spyre")
    assert x.device == torch.device("spyre:0")
    assert x.cpu().tolist() == [1.0, 2.0]
    y = torch.arange(6.0).reshape(2, 3).to("spyre")
    assert torch.equal(y.cpu(), torch.arange(6.0).reshape(2, 3))
