# SPDX-License-Identifier: Apache-2.0
"""The API page is true: every example runs and every name exists."""

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
NAME = re.compile(r"^( *)\.\. (function|class|method|attribute|data):: ([\w.]+)", re.MULTILINE)


def blocks():
    text = PAGE.read_text()
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        yield pytest.param(textwrap.dedent(match[2]), id=f"line{line}")


def names():
    owner = ""
    for indent, kind, name in NAME.findall(PAGE.read_text()):
        if indent:
            yield f"{owner}.{name}", kind
        else:
            owner = name
            yield name, kind


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
    if kind in ("function", "class"):
        assert (target.__doc__ or "").strip(), f"{name} has no docstring"


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
