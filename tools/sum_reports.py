# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit reports that the nox sessions leave and prints one closing line."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET


def counts(report: Path) -> Counter[str]:
    """Return how many tests of one report passed, failed and were skipped."""
    total: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    for suite in ET.parse(report).getroot().iter("testsuite"):
        tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        total.update(passed=tests - failed - skipped, failed=failed, skipped=skipped)
    return total


def closing_lines(folder: Path) -> str:
    """Return a line for each report and one for their sum, the last line of a run."""
    total: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    lines = []
    for report in sorted(folder.glob("*.xml")):
        one = counts(report)
        total.update(one)
        lines.append(f"  {report.stem}: {_text(one)}")
    return "\n".join([*lines, _text(total)])


def _text(count: Counter[str]) -> str:
    return f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"


if __name__ == "__main__":
    print(closing_lines(Path(sys.argv[1])))
