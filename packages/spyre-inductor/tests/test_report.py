# SPDX-License-Identifier: Apache-2.0
"""`explain` and the log."""

from __future__ import annotations

import pytest
import spyre_inductor
import torch


def test_explain():
    def fn(x):
        y = torch.softmax(x * 2, -1)
        torch._dynamo.graph_break()
        return torch.polygamma(1, y + 1) + 1

    report = spyre_inductor.explain(fn, torch.rand(4, 9, device="spyre"))
    text = report.text()
    assert report.kernel_count >= 2
    assert "reduce_max" in text
    assert "loop 9 reduce" in text
    assert "polygamma" in text
    assert "no instruction" in text
    assert len(report.graph_breaks) == 1
    assert report.graphs == 2
    assert "<h2>" in report.html()


def test_log_shows_each_pass(monkeypatch, tmp_path):
    path = tmp_path / "log.txt"
    monkeypatch.setenv("SPYRE_INDUCTOR_LOG", "1")
    monkeypatch.setenv("SPYRE_LOG_FILE", str(path))
    with torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(lambda x: (x + 1).sum(), backend="spyre")(torch.rand(5, device="spyre"))
    monkeypatch.undo()
    from spyre_inductor import log

    log.setup()
    text = path.read_text()
    for name in ("fuse", "place_buffers", "coalesce_loops", "divide_work"):
        assert f"before pass {name}" in text
        assert f"after pass {name}" in text
    assert "kernel op0" in text


def test_a_log_file_that_cannot_be_written_names_its_variable(monkeypatch, tmp_path):
    from spyre_inductor import log
    from spyre_inductor.errors import ConfigError

    path = tmp_path / "missing" / "log.txt"
    monkeypatch.setenv("SPYRE_INDUCTOR_LOG", "1")
    monkeypatch.setenv("SPYRE_LOG_FILE", str(path))
    with pytest.raises(ConfigError, match=r"SPYRE_LOG_FILE.*log\.txt.*must be the path of a file"):
        log.setup()
    monkeypatch.undo()
    log.setup()
