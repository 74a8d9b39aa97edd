# SPDX-License-Identifier: Apache-2.0
"""Environment variables: values, and errors that name variable, value and what is allowed."""

from __future__ import annotations

import dataclasses

import pytest
import spyre_runtime
from spyre_inductor import config, log
from spyre_inductor.config import CompilerConfig, compiler_config, log_config
from spyre_inductor.errors import ConfigError


def test_defaults(monkeypatch):
    for name in ("SENCORES", "LX_PLANNING", "DXP_LX_FRAC_AVAIL"):
        monkeypatch.delenv(name, raising=False)
    assert compiler_config() == CompilerConfig(32, False, 0.2)


def test_values(monkeypatch):
    monkeypatch.setenv("SENCORES", "4")
    monkeypatch.setenv("LX_PLANNING", "1")
    monkeypatch.setenv("DXP_LX_FRAC_AVAIL", "0.5")
    found = compiler_config()
    assert (found.cores, found.lx_planning, found.lx_bytes) == (4, True, 1 << 20)
    assert found.key() != CompilerConfig().key()


def test_no_more_than_the_device_has(monkeypatch):
    monkeypatch.setenv("SENCORES", "8")
    before = compiler_config()
    smaller = dataclasses.replace(
        spyre_runtime.get_device_properties(), multi_processor_count=2, lx_bytes=1 << 20
    )
    monkeypatch.setattr(config, "get_device_properties", lambda: smaller)
    assert (before.cores, compiler_config().cores) == (8, 2)
    assert (before.lx_bytes_per_core, compiler_config().lx_bytes_per_core) == (2 << 20, 1 << 20)
    assert before.key() != compiler_config().key()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("SENCORES", "0", "from 1 to 32"),
        ("SENCORES", "33", "from 1 to 32"),
        ("SENCORES", "many", "from 1 to 32"),
        ("LX_PLANNING", "perhaps", "1 or 0"),
        ("DXP_LX_FRAC_AVAIL", "1.5", "from 0 to 1"),
        ("DXP_LX_FRAC_AVAIL", "x", "from 0 to 1"),
    ],
)
def test_bad_values(monkeypatch, name, value, allowed):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        compiler_config()
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)
    assert allowed in str(caught.value)


def test_log_level(monkeypatch):
    monkeypatch.setenv("SPYRE_INDUCTOR_LOG_LEVEL", "LOUD")
    with pytest.raises(
        ConfigError, match="SPYRE_INDUCTOR_LOG_LEVEL.*'LOUD'.*DEBUG, INFO, WARNING, ERROR"
    ):
        log_config()
    monkeypatch.setenv("SPYRE_INDUCTOR_LOG_LEVEL", "debug")
    assert log_config().level == "DEBUG"


@pytest.mark.parametrize("path", ["/no/such/folder/log", "/"])
def test_a_log_that_cannot_be_written(monkeypatch, path):
    monkeypatch.setenv("SPYRE_INDUCTOR_LOG", "1")
    monkeypatch.setenv("SPYRE_LOG_FILE", path)
    with pytest.raises(ConfigError, match=f"SPYRE_LOG_FILE is set to '{path}', but no log can"):
        log.setup()
