# SPDX-License-Identifier: Apache-2.0
"""Registration with dynamo and Inductor, done when they are imported and not before.

`post_import_hooks()` maps module names to functions that the autoloader calls after those modules
have run; `spyre_backend` is the dynamo backend "spyre" (entry point group `torch_dynamo_backends`).
The default backend works as well: graphs of the device are recognised in `compile_fx`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from spyre_inductor import _version, dynamo_rules, torch_savings


def post_import_hooks() -> dict[str, Callable[[], None]]:
    """What to call after which module has been imported."""
    return {
        "torch._dynamo.trace_rules": dynamo_rules.skip_own_modules,
        "torch._dynamo.convert_frame": dynamo_rules.trace_device_module,
        "torch._inductor.codegen.common": torch_savings.skip_templates,
        "torch._inductor.compile_fx": register_inductor,
    }


@functools.cache
def register_inductor() -> None:
    """Makes Inductor compile for the device. Called once Inductor's `compile_fx` exists."""
    from torch._inductor.codegen.common import (
        DeviceOpOverrides,
        register_backend_for_device,
        register_device_op_overrides,
    )

    from spyre_inductor import lowering, torch_compat
    from spyre_inductor.codegen.scheduling import SpyreScheduling
    from spyre_inductor.codegen.wrapper import SpyreWrapper
    from spyre_inductor.passes.rewrite_graph import GraphRewrite

    class SpyreOpOverrides(DeviceOpOverrides):
        """Python lines about the device in generated code."""

        def import_get_raw_stream_as(self, name: str) -> str:
            return f"def {name}(index): return 0"

        def set_device(self, device_idx: int) -> str:
            return f"torch.spyre.set_device({device_idx})"

        def synchronize(self) -> str:
            return "torch.spyre.synchronize()"

        def device_guard(self, device_idx: int) -> str:
            return f"torch.spyre.device({device_idx})"

        def current_stream(self) -> str:
            return "torch.spyre.current_stream()"

    register_backend_for_device(
        torch_compat.DEVICE_TYPE,
        SpyreScheduling,
        SpyreWrapper,
        device_custom_pass=GraphRewrite(),
    )
    register_device_op_overrides(torch_compat.DEVICE_TYPE, SpyreOpOverrides())
    torch_savings.restore_templates()
    torch_savings.install()
    lowering.register()
    torch_compat.keep_float_products()
    torch_compat.keep_divisions()
    torch_compat.compare_any_strides()
    torch_compat.wrap_compile_fx(lowering.retry_unsupported)


def spyre_backend(model: Any, example_inputs: Any, **kwargs: Any) -> Any:
    """Dynamo backend "spyre": Inductor, for graphs of the device or of the host.

    Args:
        model: the graph that dynamo captured.
        example_inputs: its inputs.
        **kwargs: `mode` and `options`, as torch.compile takes them.
    """
    with torch_savings.without_collector():
        from torch._inductor import compile_fx as module

        register_inductor()
    patches = _config_patches(kwargs.pop("mode", None), kwargs.pop("options", None))
    if kwargs:
        raise TypeError(
            f"backend 'spyre' got options {sorted(kwargs)}, expected mode and options only; "
            f"remove them"
        )
    return module.compile_fx(model, example_inputs, config_patches=patches or None)


def _config_patches(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    from torch._inductor import list_mode_options

    patches: dict[str, Any] = {}
    if mode is not None and mode != "default":
        known = list_mode_options()
        if mode not in known:
            raise ValueError(
                f"backend 'spyre' was given mode {mode!r}, "
                f"expected one of {sorted(known)} or 'default'"
            )
        patches.update(known[mode])
    for name, value in (options or {}).items():
        patches[name.replace("-", "_")] = value
    return patches


def package_versions() -> str:
    """Versions of everything that decides what a compiled graph contains; part of cache keys."""
    found = [f"spyre-inductor {_version.__version__} {_source_digest()}"]
    for name in ("spyre-runtime", "spyre-layout", "torch-spyre"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)


@functools.cache
def _source_digest() -> str:
    """Of this package's own code: an edited compiler must not be served its former programs."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
