# SPDX-License-Identifier: Apache-2.0
"""The compiler's log: silent unless SPYRE_INDUCTOR_LOG=1."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from spyre_inductor.config import LogConfig, log_config
from spyre_inductor.errors import ConfigError

LOGGER = logging.getLogger("spyre_inductor")
_configured: LogConfig | None = None


def setup() -> bool:
    """Applies the logging variables; returns whether anything is to be logged."""
    global _configured
    config = log_config()
    if config != _configured:
        for handler in list(LOGGER.handlers):
            LOGGER.removeHandler(handler)
            handler.close()
        if config.enabled:
            handler = _file(config.path) if config.path else logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter("[spyre_inductor] %(levelname)s %(message)s"))
            LOGGER.addHandler(handler)
            LOGGER.setLevel(config.level)
            LOGGER.propagate = False
        _configured = config
    return config.enabled


def _file(path: str) -> logging.Handler:
    try:
        return logging.FileHandler(path)
    except OSError as error:
        raise ConfigError(
            f"environment variable SPYRE_LOG_FILE is set to {path!r}, but no log can be written "
            f"there: {error.strerror}; it must be the path of a file in a folder that exists"
        ) from error


def log_pass(name: str, when: str, text: Callable[[], str]) -> None:
    """Logs the IR before or after a pass; the text is made only if someone listens."""
    if _configured is not None and _configured.enabled and LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info("%s pass %s\n%s", when, name, text())
