# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the compiler: misuse, unsupported, and bugs of its own."""


class SpyreInductorError(Exception):
    """Base of every exception this package raises."""


class ConfigError(SpyreInductorError, ValueError):
    """An environment variable or option has a value that is not allowed."""


class UnsupportedError(SpyreInductorError, NotImplementedError):
    """The device has no instruction for what a graph asks; the op runs eagerly instead."""


class CompilerBugError(SpyreInductorError, AssertionError):
    """An invariant of the compiler does not hold: please report it with the printed kernel."""
