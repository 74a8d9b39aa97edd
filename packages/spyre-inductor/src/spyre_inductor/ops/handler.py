# SPDX-License-Identifier: Apache-2.0
"""Runs an Inductor loop body and records it as IR values.

`ValueHandler` knows operations; where memory is (`load`, `store`, indices) belongs to its subclass
in `ir/capture.py`. Everything it meets and cannot express is an `UnsupportedError`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.virtualized import OpsValue
from typing_extensions import override

from spyre_inductor.errors import UnsupportedError
from spyre_inductor.ir.kernel import Builder, Value
from spyre_inductor.ops import table
from spyre_inductor.ops.table import lane_type

_DEFAULT_DTYPE = {"F": torch.float32, "I": torch.int64, "B": torch.bool}


class ValueHandler(DefaultHandler):
    """Inductor's operations as IR values, with types, integer wrapping and half rounding."""

    def __init__(self, builder: Builder):
        self.builder = builder

    # --- construction ---

    def emit(self, op: str, *args: Value | None, dtype: torch.dtype, attr: Any = None) -> Value:
        """A value: the program instruction `op` on these operands."""
        return self.builder.make(op, args, lane_type(dtype), dtype, attr)

    @override
    def constant(self, value: bool | float, dtype: torch.dtype) -> Value:
        kind = lane_type(dtype)
        if kind == "F":
            number = float(value)
            if math.isinf(number) and dtype in table.SEN169_DTYPES:
                number = math.copysign(table.SEN169_INFINITY, number)
            return self.emit("const_f", dtype=dtype, attr=number)
        if kind == "B":
            return self.emit("i2b", self.integer(int(bool(value))), dtype=torch.bool)
        return self.emit("const_i", dtype=dtype, attr=int(value))

    def integer(self, value: Any) -> Value:
        """An int64 constant, which may be an expression over size symbols."""
        return self.emit("const_i", dtype=torch.int64, attr=value)

    # --- conversions ---

    def as_type(self, value: Any, kind: str) -> Value:
        """Converts between lane types; numbers become constants."""
        if isinstance(value, (bool, int, float)):
            return self.constant(value, _DEFAULT_DTYPE[kind])
        value = self.value(value)
        if value.type == kind:
            return value
        if kind == "B" and value.op in ("b2i", "b2f"):
            return value.args[0]
        op = {
            "FB": "f2b",
            "IB": "i2b",
            "BF": "b2f",
            "IF": "i2f",
            "BI": "b2i",
            "FI": "f2i_i64",
        }[value.type + kind]
        return self.emit(op, value, dtype=_DEFAULT_DTYPE[kind])

    @override
    def to_dtype(
        self,
        x: Value,
        dtype: torch.dtype,
        src_dtype: torch.dtype | None = None,
        use_compute_types: bool = True,
    ) -> Value:
        x = self.value(x)
        target = lane_type(dtype)
        if x.type == "F" and target == "F":
            return self._round(x, dtype)
        if target == "B":
            return self.as_type(x, "B")
        if target == "F":
            converted = self.as_type(x, "F")
            return converted if x.type == "B" else self._round(converted, dtype)
        if x.type == "F":
            return self.emit(table.FLOAT_TO_INT[dtype], x, dtype=dtype)
        return self.wrap(self.as_type(x, "I"), dtype, x.dtype)

    def _round(self, x: Value, dtype: torch.dtype) -> Value:
        if x.op == "const_f":  # an infinite constant stays the stand-in for infinity
            return self.constant(x.attr, dtype) if dtype in table.SEN169_DTYPES else x
        if dtype not in table.ROUND:
            return x
        rounding = table.ROUND[dtype]
        if x.op == rounding or (x.op == "load" and table.ROUND.get(x.dtype) == rounding):
            return x
        return self.emit(rounding, x, dtype=dtype)

    def wrap(self, x: Value, dtype: torch.dtype, source: torch.dtype | None = None) -> Value:
        """Wraps an integer to the width of `dtype`, unless values of `source` always fit."""
        if dtype not in table.WRAP or dtype == source or source is torch.bool:
            return x if x.dtype == dtype else self._retype(x, dtype)
        return self.emit(table.WRAP[dtype], x, dtype=dtype)

    def _retype(self, x: Value, dtype: torch.dtype) -> Value:
        """The same value under another width: what is computed of it wraps to that one."""
        if x.is_reduction or dtype == x.dtype:
            return x
        return self.builder.make(x.op, x.args, x.type, dtype, x.attr)

    def value(self, x: Any) -> Value:
        """Operands may be Python numbers, or wrapped while a lowering is tried."""
        if isinstance(x, OpsValue):
            x = x.value
        if isinstance(x, Value):
            return x
        if isinstance(x, bool):
            return self.constant(x, torch.bool)
        if isinstance(x, int):
            return self.constant(x, torch.int64)
        if isinstance(x, float):
            return self.constant(x, torch.float32)
        raise UnsupportedError(f"operand {x!r} of type {type(x).__name__} is not a scalar value")

    def _promote(self, *args: Any) -> tuple[list[Value], str, torch.dtype]:
        """Brings operands to one lane type; gives it and the dtype that the result wraps to."""
        values = [self.value(arg) for arg in args]
        kinds = {v.type for v in values}
        kind = "F" if "F" in kinds else "I" if "I" in kinds else "B"
        same = [v for v in values if v.type == kind]
        firm = [v.dtype for v in same if not v.op.startswith("const_")] or [v.dtype for v in same]
        dtype = functools.reduce(torch.promote_types, firm)
        return [self.as_type(v, kind) for v in values], kind, dtype

    # --- operations ---

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in table.FLOAT_UNARY:
            return self._float(table.FLOAT_UNARY[name], args)
        if name in table.FLOAT_BINARY:
            return self._float(table.FLOAT_BINARY[name], args)
        if name in table.SAME_UNARY:
            return self._same_unary(name, args[0])
        if name in table.SAME_BINARY:
            return self._same_binary(name, args)
        if name in table.COMPARE:
            return self._compare(name, args)
        if name in table.LOGICAL:
            operands = [self.as_type(self.value(arg), "B") for arg in args]
            return self.emit(table.LOGICAL[name], *operands, dtype=torch.bool)
        raise UnsupportedError(f"the device has no instruction for Inductor's operation {name!r}")

    def _float(self, op: str, args: tuple[Any, ...]) -> Value:
        return self.emit(op, *(self.as_type(self.value(a), "F") for a in args), dtype=torch.float32)

    def _same_unary(self, name: str, arg: Any) -> Value:
        x = self.value(arg)
        floating, integer = table.SAME_UNARY[name]
        if x.type == "F":
            return self.emit(floating, x, dtype=torch.float32)
        if x.type == "B" or integer is None:
            return x
        return self.wrap(self.emit(integer, x, dtype=torch.int64), x.dtype)

    def _same_binary(self, name: str, args: tuple[Any, ...]) -> Value:
        values, kind, dtype = self._promote(*args)
        op = table.SAME_BINARY[name]["FIB".index(kind)]
        if op is None and kind == "B":
            values, dtype = [self.as_type(v, "I") for v in values], torch.int64
            op = table.SAME_BINARY[name][1]
        if op is None:
            raise UnsupportedError(f"the device has no {name} of {dtype}")
        if lane_type(dtype) == "I":
            return self.wrap(self.emit(op, *values, dtype=torch.int64), dtype)
        return self.emit(op, *values, dtype=torch.bool if kind == "B" else torch.float32)

    def _compare(self, name: str, args: tuple[Any, ...]) -> Value:
        values, kind, _ = self._promote(*args)
        if kind == "B":
            values, kind = [self.as_type(v, "F") for v in values], "F"
        return self.emit(name if kind == "F" else f"{name}_i", *values, dtype=torch.bool)

    @override
    def identity(self, x: Value) -> Value:
        return x

    @override
    def square(self, x: Value) -> Value:
        return self._same_binary("mul", (x, x))

    @override
    def relu(self, x: Value) -> Value:
        value = self.value(x)
        if value.type == "F":
            return self.emit("relu", value, dtype=torch.float32)
        return self._same_binary("maximum", (value, self.constant(0, value.dtype)))

    @override
    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self._float("fma", (x, y, z))

    @override
    def ldexp(self, x0: Value, n: Value) -> Value:
        return self._float("mul", (x0, self._float("exp2", (n,))))

    @override
    def where(self, condition: Value, input: Value, other: Value) -> Value:
        mask = self.as_type(self.value(condition), "B")
        (a, b), kind, dtype = self._promote(input, other)
        op = {"F": "where", "I": "where_i", "B": "where_b"}[kind]
        if mask.op == "i2b" and mask.args[0] is not None and mask.args[0].op == "const_i":
            attr = mask.args[0].attr
            if isinstance(attr, int):
                return a if attr else b
        return self.emit(op, mask, a, b, dtype=dtype if kind == "I" else _DEFAULT_DTYPE[kind])

    @override
    def logical_not(self, x0: Value) -> Value:
        return self.emit("not_b", self.as_type(self.value(x0), "B"), dtype=torch.bool)

    @override
    def bitwise_not(self, x0: Value) -> Value:
        x = self.value(x0)
        if x.type == "B":
            return self.logical_not(x)
        if x.type == "F":
            raise UnsupportedError("the device has no bitwise_not of floating values")
        return self.wrap(self.emit("not_i", x, dtype=torch.int64), x.dtype)

    @override
    def isnan(self, x0: Value) -> Value:
        return self._class_test("isnan", x0)

    @override
    def isinf(self, x0: Value) -> Value:
        x = self.value(x0)
        half = x.dtype in table.SEN169_DTYPES
        return self._class_test("isinf_sen169" if half else "isinf", x)

    @override
    def signbit(self, x0: Value) -> Value:
        x = self.value(x0)
        if x.type == "I":
            return self._compare("lt", (x, self.constant(0, torch.int64)))
        return self._class_test("signbit", x)

    def _class_test(self, op: str, x0: Value) -> Value:
        x = self.value(x0)
        if x.type != "F":
            return self.constant(False, torch.bool)
        return self.emit(op, x, dtype=torch.bool)

    @override
    def trunc_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self._round_to_int("trunc", x, dtype)

    @override
    def floor_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self._round_to_int("floor", x, dtype)

    @override
    def ceil_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self._round_to_int("ceil", x, dtype)

    @override
    def round_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self._round_to_int("round", x, dtype)

    def _round_to_int(self, op: str, x: Value, dtype: torch.dtype) -> Value:
        return self.to_dtype(self._same_unary(op, x), dtype)

    @override
    def to_dtype_bitcast(self, x: Value, dtype: torch.dtype, src_dtype: torch.dtype) -> Value:
        if dtype is torch.int32 and src_dtype is torch.float32:
            return self.emit("bits_f2i", x, dtype=dtype)
        if dtype is torch.float32 and src_dtype is torch.int32:
            return self.emit("bits_i2f", x, dtype=dtype)
        raise UnsupportedError(f"the device cannot view the bits of {src_dtype} as {dtype}")

    @override
    def rand(self, seed: Value, offset: Value) -> Value:
        return self._random("rand", seed, offset, torch.float32)

    @override
    def randn(self, seed: Value, offset: Value) -> Value:
        return self._random("randn", seed, offset, torch.float32)

    def _random(self, op: str, seed: Value, offset: Value, dtype: torch.dtype) -> Value:
        return self.emit(op, self.as_type(seed, "I"), self.as_type(offset, "I"), dtype=dtype)

    @override
    def randint64(self, seed: Value, offset: Value, low: Value, high: Value) -> Value:
        operands = [self.as_type(self.value(v), "I") for v in (seed, offset, low, high)]
        return self.emit("randint", *operands, dtype=torch.int64)

    @override
    def dot(self, x: Value, y: Value) -> tuple[Value, Value]:
        return (x, y)

    @override
    def device_assert_async(self, cond: Value, msg: str) -> None:
        raise UnsupportedError(f"the device has no assertion (asked for: {msg!r})")

    @override
    def output(self, *args: Any) -> None:
        return None

    # --- reductions ---

    @override
    def reduction(
        self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any
    ) -> Any:
        if reduction_type == "dot":
            return self.emit("dot", *map(self.value, value), dtype=torch.float32)
        if reduction_type == "welford_reduce":
            return self._welford(value)
        if reduction_type == "online_softmax_reduce":
            return self._online_softmax(value)
        if reduction_type not in table.REDUCTIONS:
            raise UnsupportedError(f"the device has no reduction {reduction_type!r}")
        x = self.value(value)
        if reduction_type == "any":
            x = self.as_type(x, "B")
        if x.type == "B" and table.REDUCTIONS[reduction_type][2] is None:
            x = self.as_type(x, "I")
        op = table.REDUCTIONS[reduction_type]["FIB".index(x.type)]
        if op is None:
            raise UnsupportedError(f"the device has no reduction {reduction_type!r} of {x.dtype}")
        if reduction_type.startswith("arg"):
            return self.emit(op, x, dtype=torch.int64)
        if x.type == "I":
            return self.wrap(
                self.emit(op, x, dtype=torch.int64),
                dtype if lane_type(dtype) == "I" else torch.int64,
            )
        return self.emit(op, x, dtype=torch.bool if x.type == "B" else torch.float32)

    def reduce_count(self) -> Value:
        """Iterations of the reduce loops as a float value; the subclass knows the loops."""
        raise NotImplementedError

    def _welford(self, value: Any) -> tuple[Value, Value, Value]:
        """Mean, then squared deviations: two passes over registers, exact where one pass is not."""
        x = self.as_type(self.value(value), "F")
        count = self.reduce_count()
        mean = self._float("div", (self.emit("reduce_sum", x, dtype=torch.float32), count))
        number = _without_infinities(x)
        deviation = self._float("sub", (number, mean))
        squares = self._float("mul", (deviation, deviation))
        total = self.emit("reduce_sum", squares, dtype=torch.float32)
        if number is not x:  # an infinity is in the mean, and makes this nan
            total = self._float("add", (total, self._float("sub", (mean, mean))))
        return mean, total, count

    def _online_softmax(self, value: Any) -> tuple[Value, Value]:
        x = self.as_type(self.value(value), "F")
        top = self.emit("reduce_max", x, dtype=torch.float32)
        weight = self._float("exp", (self._float("sub", (x, top)),))
        return top, self.emit("reduce_sum", weight, dtype=torch.float32)


def _without_infinities(x: Value) -> Value:
    """A half as its number, where `x` is that with +-2^32 made infinite; otherwise `x`."""
    is_half = x.op == "where" and x.args[0] is not None and x.args[0].op == "isinf_sen169"
    return x.args[2] if is_half and x.args[2] is not None else x
