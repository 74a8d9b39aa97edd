# SPDX-License-Identifier: Apache-2.0
"""The version check compares release numbers and names all that is wrong at once."""

import pytest
from torch_spyre import _siblings

FITTING = {name: f"{floor}.3" for name, floor, _ in _siblings.REQUIRED}


@pytest.fixture
def installed(monkeypatch):
    def install(**versions):
        table = {**FITTING, **{name.replace("_", "-"): text for name, text in versions.items()}}

        def version(name):
            if table[name] is None:
                raise _siblings.metadata.PackageNotFoundError(name)
            return table[name]

        monkeypatch.setattr(_siblings.metadata, "version", version)

    return install


def test_fitting_versions_are_no_problem(installed):
    installed()
    assert _siblings.problem() is None


@pytest.mark.parametrize("version", ["0.1", "0.1.0", "0.1.9rc2", "0.1.5+local.build", "0.1.0.dev3"])
def test_any_release_of_the_range_fits(installed, version):
    installed(spyre_runtime=version)
    assert _siblings.problem() is None


@pytest.mark.parametrize("version", ["0.0.9", "0.2", "0.2.0rc1", "0.10.1", "1.0", "2026.1"])
def test_a_release_outside_does_not(installed, version):
    installed(spyre_runtime=version)
    assert f"spyre-runtime {version} (needs >=0.1,<0.2)" in _siblings.problem()


def test_one_sentence_names_everything_and_the_command(installed):
    installed(spyre_layout="0.3.0", spyre_inductor=None)
    message = _siblings.problem()
    assert "spyre-layout 0.3.0 (needs >=0.1,<0.2)" in message
    assert "spyre-inductor is not installed (needs >=0.1,<0.2)" in message
    assert message.endswith('pip install "spyre-layout>=0.1,<0.2" "spyre-inductor>=0.1,<0.2"')
    assert "\n" not in message
