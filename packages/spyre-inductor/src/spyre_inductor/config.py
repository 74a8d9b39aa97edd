# SPDX-License-Identifier: Apache-2.0
"""Settings of the compiler, read from the environment and checked.

The variables are those of the public API page. They are read each time a graph is compiled, so a
change between two compilations takes effect, and they are part of the cache key. So is what the
device has: programs are planned for no more than that.
"""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass

from spyre_runtime import devices, get_device_properties

from spyre_inductor.errors import ConfigError

MAX_CORES = 32
LX_BYTES_PER_CORE = 2 << 20

_TRUE = ("1", "true", "on", "yes")
_FALSE = ("", "0", "false", "off", "no")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def _refuse(name: str, value: str, allowed: str) -> ConfigError:
    return ConfigError(
        f"environment variable {name} is set to {value!r}, but it must be {allowed}; "
        f"correct it or unset it"
    )


def _read_int(name: str, default: int, low: int, high: int) -> int:
    text = os.environ.get(name)
    if text is None or not text.strip():
        return default
    allowed = f"an integer from {low} to {high}"
    try:
        value = int(text)
    except ValueError:
        raise _refuse(name, text, allowed) from None
    if not low <= value <= high:
        raise _refuse(name, text, allowed)
    return value


def _read_bool(name: str) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _refuse(name, os.environ[name], "1 or 0")


def _read_fraction(name: str, default: float) -> float:
    text = os.environ.get(name)
    if text is None or not text.strip():
        return default
    allowed = "a number from 0 to 1"
    try:
        value = float(text)
    except ValueError:
        raise _refuse(name, text, allowed) from None
    if not 0.0 <= value <= 1.0:
        raise _refuse(name, text, allowed)
    return value


def _read_choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    text = os.environ.get(name)
    if text is None or not text.strip():
        return default
    if text.strip().upper() not in choices:
        raise _refuse(name, text, "one of " + ", ".join(choices))
    return text.strip().upper()


@dataclass(frozen=True)
class CompilerConfig:
    """What changes the programs that come out. Equal configs give equal programs.

    Attributes:
        cores: cores that a stage is divided over (`SENCORES`, at most what the device has).
        lx_planning: keep buffers in the cores' scratchpads where possible (`LX_PLANNING`).
        lx_fraction: share of a scratchpad that the planner may use (`DXP_LX_FRAC_AVAIL`).
        lx_bytes_per_core: size of a scratchpad.
    """

    cores: int = MAX_CORES
    lx_planning: bool = False
    lx_fraction: float = 0.2
    lx_bytes_per_core: int = LX_BYTES_PER_CORE

    @property
    def lx_bytes(self) -> int:
        """Scratchpad bytes of one core that the planner may use."""
        return int(self.lx_fraction * self.lx_bytes_per_core)

    def key(self) -> str:
        """Text that differs whenever two configs do; goes into cache keys."""
        return repr(astuple(self))


@dataclass(frozen=True)
class LogConfig:
    """Where and how much the compiler logs; never changes what it makes."""

    enabled: bool = False
    level: str = "INFO"
    path: str | None = None


def compiler_config() -> CompilerConfig:
    """Reads and checks the settings that change programs.

    Raises:
        ConfigError: a variable's value is not allowed; names variable, value and what is.
    """
    cores, lx_bytes = _device_has()
    return CompilerConfig(
        cores=min(_read_int("SENCORES", MAX_CORES, 1, MAX_CORES), cores),
        lx_planning=_read_bool("LX_PLANNING"),
        lx_fraction=_read_fraction("DXP_LX_FRAC_AVAIL", 0.2),
        lx_bytes_per_core=lx_bytes,
    )


def _device_has() -> tuple[int, int]:
    """Cores of the current device, as many as it was opened with, and bytes of their scratchpads.

    Before a device is open, as where only fake tensors are compiled for, those of the card.
    """
    if not devices.is_initialized():
        return MAX_CORES, LX_BYTES_PER_CORE
    properties = get_device_properties()
    return properties.multi_processor_count, properties.lx_bytes


def log_config() -> LogConfig:
    """Reads and checks the logging settings."""
    return LogConfig(
        enabled=_read_bool("SPYRE_INDUCTOR_LOG"),
        level=_read_choice("SPYRE_INDUCTOR_LOG_LEVEL", "INFO", LOG_LEVELS),
        path=os.environ.get("SPYRE_LOG_FILE") or None,
    )
