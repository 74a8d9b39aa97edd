# SPDX-License-Identifier: Apache-2.0
"""Callbacks run once, after the module, without importing it."""

import importlib
import sys

import pytest
from spyre_runtime.post_import import when_imported


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def make(name, text="value = 1\n"):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return make


def test_callback_waits_for_the_import_and_sees_the_whole_module(module):
    name = module("watched_a")
    seen = []
    when_imported(name, lambda: seen.append(sys.modules[name].value))
    assert seen == []
    importlib.import_module(name)
    assert seen == [1]
    importlib.reload(sys.modules[name])
    assert seen == [1]


def test_a_module_already_there_calls_back_at_once(module):
    importlib.import_module(module("watched_b"))
    seen = []
    when_imported("watched_b", lambda: seen.append(1))
    assert seen == [1]


def test_two_callbacks_for_one_module_both_run(module):
    name = module("watched_c")
    seen = []
    when_imported(name, lambda: seen.append("first"))
    when_imported(name, lambda: seen.append("second"))
    importlib.import_module(name)
    assert sorted(seen) == ["first", "second"]


def test_the_module_keeps_its_own_loader(module):
    name = module("watched_d")
    when_imported(name, lambda: None)
    loaded = importlib.import_module(name)
    assert type(loaded.__spec__.loader).__name__ == "SourceFileLoader"
    assert type(loaded.__loader__).__name__ == "SourceFileLoader"


def test_a_failing_import_is_tried_again_by_the_next(module, tmp_path):
    name = module("watched_e", "raise ValueError('not yet')\n")
    seen = []
    when_imported(name, lambda: seen.append(1))
    with pytest.raises(ValueError, match="not yet"):
        importlib.import_module(name)
    assert seen == []
    (tmp_path / f"{name}.py").write_text("value = 22222\n")
    importlib.import_module(name)
    assert seen == [1]


def test_a_missing_module_stays_missing():
    when_imported("no_such_module_at_all", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_at_all")
