# SPDX-License-Identifier: Apache-2.0
"""An independent interpreter of program text, in NumPy, for tests.

Slow and plain on purpose: it evaluates each phase over the whole iteration space at once. Buffers
are flat host-order arrays, so it knows nothing of layouts; it shares no code with the compiler or
the device.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np
import torch

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "bool": torch.bool,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
}


_OVERFLOW = 2.0**32 * (1 + 510.5 / 512)


def round_sen169(x):
    """Nearest value with 9 fraction bits, halves away from zero; beyond the range, +-2^32."""
    x = np.asarray(x, np.float32)
    mantissa, exponent = np.frexp(x)
    scaled = np.abs(mantissa.astype(np.float64)) * 1024
    rounded = np.ldexp(np.sign(mantissa) * np.floor(scaled + 0.5) / 1024, exponent)
    rounded = np.where(np.abs(x) < 2.0**-31 * (1 + 1 / 1024), 0.0, rounded)
    rounded = np.where(np.abs(x) >= _OVERFLOW, np.copysign(2.0**32, x), rounded)
    return np.where(np.isnan(x), np.nan, rounded).astype(np.float32)


def _plainly_stored(x):
    return np.where(np.abs(x) >= _OVERFLOW, np.float32(np.nan), round_sen169(x))


def _erf(x):
    return torch.erf(torch.from_numpy(np.array(x))).numpy()


def _t(name):
    def f(*args):
        ts = [torch.from_numpy(np.array(a, np.float32)) for a in args]
        return getattr(torch, name)(*ts).numpy()

    return f


UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "reciprocal": lambda x: np.float32(1) / x,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "sigmoid": _t("sigmoid"),
    "relu": _t("relu"),
    "silu": lambda x: x * _t("sigmoid")(x),
    "gelu": lambda x: torch.nn.functional.gelu(torch.from_numpy(np.array(x))).numpy(),
    "gelu_tanh": lambda x: torch.nn.functional.gelu(
        torch.from_numpy(np.array(x)), approximate="tanh"
    ).numpy(),
    "round": np.rint,
    "round_sen169": round_sen169,
    "round_bfloat16": lambda x: torch.from_numpy(np.array(x)).bfloat16().float().numpy(),
    "round_float16": lambda x: x.astype(np.float16).astype(np.float32),
    "inf_from_sen169": lambda x: np.where(
        (np.abs(round_sen169(x)) == 2.0**32) | (np.abs(x) >= _OVERFLOW),
        np.copysign(np.float32(np.inf), x),
        x,
    ),
    "inf_to_sen169": lambda x: np.where(
        np.abs(x) >= _OVERFLOW, np.copysign(np.float32(2.0**32), x), x
    ),
}
for _name in [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "floor",
    "ceil",
    "trunc",
    "frac",
    "i0",
]:
    UNARY.setdefault(_name, _t(_name))
for _name in ["i0e", "i1", "i1e"]:
    UNARY[_name] = lambda x, n=_name: getattr(torch.special, n)(
        torch.from_numpy(np.array(x))
    ).numpy()

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fmod": np.fmod,
    "remainder": _t("remainder"),
    "pow": _t("pow"),
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "floordiv": lambda a, b: np.floor(a / b),
    "truncdiv": lambda a, b: np.trunc(a / b),
}
COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _guard0(f):
    def g(a, b):
        a, b = np.asarray(a), np.asarray(b)
        return np.where(b == 0, 0, f(a, np.where(b == 0, 1, b)))

    return g


INT_BINARY = {
    "add_i": np.add,
    "sub_i": np.subtract,
    "mul_i": np.multiply,
    "floordiv_i": _guard0(np.floor_divide),
    "truncdiv_i": _guard0(lambda a, b: (np.abs(a) // np.abs(b)) * np.sign(a) * np.sign(b)),
    "remainder_i": _guard0(np.mod),
    "fmod_i": _guard0(np.fmod),
    "maximum_i": np.maximum,
    "minimum_i": np.minimum,
    "and_i": np.bitwise_and,
    "or_i": np.bitwise_or,
    "xor_i": np.bitwise_xor,
    "shl_i": lambda a, b: np.where((b < 0) | (b > 63), 0, np.left_shift(a, np.clip(b, 0, 63))),
    "shr_i": lambda a, b: np.right_shift(a, np.clip(b, 0, 63)),
    "pow_i": lambda a, b: np.where(b < 0, 0, np.power(a, np.maximum(b, 0))),
}
INT_UNARY = {
    "neg_i": np.negative,
    "abs_i": np.abs,
    "sign_i": np.sign,
    "not_i": np.invert,
    "wrap_i8": lambda x: x.astype(np.int8).astype(np.int64),
    "wrap_i16": lambda x: x.astype(np.int16).astype(np.int64),
    "wrap_i32": lambda x: x.astype(np.int32).astype(np.int64),
    "wrap_u8": lambda x: x.astype(np.uint8).astype(np.int64),
}


def _f2i(lo, hi):
    def f(x):
        y = np.nan_to_num(
            np.trunc(x.astype(np.float64)), nan=0.0, posinf=2.0**64, neginf=-(2.0**64)
        )
        clipped = np.clip(y, float(lo), float(hi))
        return np.where(y >= float(hi), hi, np.where(y <= float(lo), lo, clipped.astype(np.int64)))

    return f


CONVERT = {
    "f2i_i8": _f2i(-128, 127),
    "f2i_i16": _f2i(-(2**15), 2**15 - 1),
    "f2i_i32": _f2i(-(2**31), 2**31 - 1),
    "f2i_i64": _f2i(-(2**63), 2**63 - 1),
    "f2i_u8": _f2i(0, 255),
    "i2f": lambda x: x.astype(np.float32),
    "f2b": lambda x: (x != 0).astype(np.float32),
    "i2b": lambda x: (x != 0).astype(np.float32),
    "b2f": lambda x: x.astype(np.float32),
    "b2i": lambda x: x.astype(np.int64),
    "bits_f2i": lambda x: np.ascontiguousarray(x, np.float32).view(np.int32).astype(np.int64),
    "bits_i2f": lambda x: x.astype(np.int32).view(np.float32),
    "not_b": lambda x: (x == 0).astype(np.float32),
    "isnan": lambda x: np.isnan(x).astype(np.float32),
    "isinf": lambda x: np.isinf(x).astype(np.float32),
    "isinf_sen169": lambda x: ((np.abs(x) == 2.0**32) | (np.abs(x) >= _OVERFLOW)).astype(
        np.float32
    ),
    "signbit": lambda x: np.signbit(x).astype(np.float32),
}
BOOL_BINARY = {"and_b": np.logical_and, "or_b": np.logical_or, "xor_b": np.logical_xor}


@dataclass
class Stage:
    loops: list = field(default_factory=list)
    accesses: dict = field(default_factory=dict)
    phases: list = field(default_factory=list)


class ReferenceProgram:
    """Parses program text; `launch` runs it on host tensors, halves rounded as the device does."""

    def __init__(self, text: str):
        self.symbols, self.buffers, self.stages = [], {}, []
        for raw in text.strip().splitlines():
            line = raw.split("#")[0].strip()
            if not line:
                continue
            word = line.split()[0]
            if word == "spyre.program":
                assert line == "spyre.program 1"
            elif word == "name":
                pass
            elif word == "symbol":
                self.symbols.append(line.split()[1])
            elif word == "buffer":
                m = re.fullmatch(
                    r"buffer (\w+) (arg|temp|lx) (\w+) size \[(.*)\] stride \[(.*)\]", line
                )
                self.buffers[m[1]] = (m[2], m[3], _list(m[4]), _list(m[5]))
            elif word == "stage":
                self.stages.append(Stage())
            elif word == "loop":
                m = re.fullmatch(r"loop (.+?)( reduce)?( parts \d+)?", line)
                self.stages[-1].loops.append((m[1], bool(m[2])))
            elif word == "access":
                m = re.fullmatch(r"access (\w+) (\w+) stride \[(.*)\] offset (.+)", line)
                self.stages[-1].accesses[m[1]] = (m[2], _list(m[3]), m[4])
            elif word == "phase":
                self.stages[-1].phases.append((line.endswith("reduce"), []))
            else:
                self.stages[-1].phases[-1][1].append(line)

    def launch(self, tensors, symbols=()):
        env = dict(zip(self.symbols, symbols, strict=True))
        memory, outside = {}, {}
        tensors = list(tensors)
        for name, (kind, dtype, size, stride) in self.buffers.items():
            extents = [_eval(e, env) for e in size]
            strides = [_eval(e, env) for e in stride]
            if kind == "arg":
                t = tensors.pop(0)
                assert t.dtype == DTYPES[dtype], (name, t.dtype, dtype)
                span = (
                    0
                    if t.numel() == 0
                    else 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
                )
                flat = torch.as_strided(t, (span,), (1,))
                outside[name] = (t, flat)
                memory[name] = _to_lanes(flat)
            else:
                span = (
                    0
                    if 0 in extents
                    else 1 + sum((n - 1) * s for n, s in zip(extents, strides, strict=True))
                )
                kind = (
                    np.float32 if DTYPES[dtype].is_floating_point or dtype == "bool" else np.int64
                )
                memory[name] = np.full(span, np.nan if kind is np.float32 else -77, kind)
        assert not tensors
        with np.errstate(all="ignore"):
            for stage in self.stages:
                self._run(stage, memory, env)
        for name, (_, flat) in outside.items():
            _from_lanes(memory[name], flat, self.buffers[name][1])

    def _run(self, stage, memory, env):
        extents = [_eval(e, env) for e, _ in stage.loops]
        reduce_axes = tuple(n for n, (_, r) in enumerate(stage.loops) if r)
        rank = len(extents)
        registers = {}

        def iota(n):
            shape = [1] * rank
            shape[n] = extents[n]
            return np.arange(extents[n], dtype=np.int64).reshape(shape)

        def address(name):
            buffer, strides, offset = stage.accesses[name]
            total = np.full([1] * rank, _eval(offset, env), np.int64)
            for n, s in enumerate(strides):
                if _eval(s, env):
                    total = total + iota(n) * _eval(s, env)
            return buffer, total

        for is_reduce, lines in stage.phases:
            full = [e if is_reduce or n not in reduce_axes else 1 for n, e in enumerate(extents)]
            done = []
            for line in lines:
                m = re.fullmatch(
                    r"(store|store_add) (\w+)(?: \[(%\d+)\])? (%\d+)(?: if (%\d+))?", line
                )
                if m:
                    self._store(m, memory, address, registers, full)
                    continue
                dst, rest = line.split(" = ", 1)
                value = self._value(
                    rest, memory, address, registers, full, iota, env, reduce_axes, extents
                )
                assert dst not in registers
                registers[dst] = value
                if is_reduce and not re.match(r"reduce_|dot", rest):
                    done.append(dst)
            for dst in done:
                del registers[dst]

    def _store(self, m, memory, address, registers, full):
        buffer, where = address(m[2])
        if m[3]:
            where = where + registers[m[3]]
        value = np.broadcast_to(registers[m[4]], full)
        mask = np.broadcast_to(registers[m[5]], full) != 0 if m[5] else np.ones(full, bool)
        where = np.broadcast_to(where, full)
        flat, dtype = memory[buffer], self.buffers[buffer][1]
        index = where[mask]
        assert index.size == 0 or (index.min() >= 0 and index.max() < flat.size), (
            f"{m[0]} out of range"
        )
        if m[1] == "store_add":
            for i, v in zip(index, value[mask], strict=True):
                flat[i] = _stored(flat[i] + v, dtype)
        else:
            flat[index] = _stored(value[mask], dtype)

    def _value(self, rest, memory, address, registers, full, iota, env, reduce_axes, extents):
        m = re.fullmatch(r"load (\w+)(?: \[(%\d+)\])?(?: if (%\d+))?", rest)
        if m:
            buffer, where = address(m[1])
            if m[2]:
                where = where + registers[m[2]]
            flat = memory[buffer]
            if m[3]:
                mask = registers[m[3]] != 0
                where, mask = np.broadcast_arrays(where, mask)
                assert np.all((where[mask] >= 0) & (where[mask] < flat.size)), rest
                out = np.zeros(where.shape, flat.dtype)
                out[mask] = flat[where[mask]]
                return out
            where = np.broadcast_to(where, np.broadcast_shapes(where.shape, [1] * len(full)))
            if where.size and 0 not in full:
                assert where.min() >= 0, f"{rest} out of range"
                assert where.max() < flat.size, f"{rest} out of range"
                return flat[where]
            return np.zeros(where.shape, flat.dtype)
        op, *args = rest.split(" ", 1)
        if op == "const_f":
            text = args[0]
            return np.float32(float.fromhex(text) if "x" in text else float(text))
        if op == "const_i":
            return np.int64(_eval(args[0], env))
        if op == "iota":
            return iota(int(args[0]))
        if op == "index_check":
            m = re.fullmatch(r"(%\d+) (.+?)( wrap)?(?: if (%\d+))?", args[0])
            size = _eval(m[2], env)
            i = registers[m[1]]
            i = np.where(i < 0, i + size, i) if m[3] else i
            bad = (i < 0) | (i >= size)
            if m[4]:
                bad = bad & (registers[m[4]] != 0)
            if (
                np.any(np.broadcast_to(bad, np.broadcast_shapes(np.shape(bad), full)))
                and 0 not in full
            ):
                raise IndexError("index out of range")
            return i
        values = [np.asarray(registers[a]) for a in args[0].split()]
        if op.startswith("reduce_") or op == "dot":
            if op == "dot":
                values = [
                    np.broadcast_to(_plainly_stored(v).astype(np.float64), full) for v in values
                ]
                return (
                    (values[0] * values[1]).sum(axis=reduce_axes, keepdims=True).astype(np.float32)
                )
            v = np.broadcast_to(values[0], full)
            return _reduce(op, v, reduce_axes, extents)
        return _scalar(op, values)


def _reduce(op, v, axes, extents):
    name = op.removesuffix("_i").removeprefix("reduce_")
    if name in ("argmax", "argmin"):
        rank = v.ndim
        keep = [n for n in range(rank) if n not in axes]
        moved = np.transpose(v, keep + list(axes)).reshape([v.shape[n] for n in keep] + [-1])
        result = getattr(np, name)(moved, axis=-1)  # first match wins, nan wins
        return result.astype(np.int64).reshape(
            [1 if n in axes else v.shape[n] for n in range(rank)]
        )
    if name in ("any", "all"):
        return getattr(np, name)(v != 0, axis=axes, keepdims=True).astype(np.float32)
    if v.dtype == np.int64:
        f = {
            "sum": np.sum,
            "prod": np.prod,
            "max": np.max,
            "min": np.min,
            "xor": np.bitwise_xor.reduce,
        }[name]
        return f(v, axis=axes, keepdims=True)
    f = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[name]
    wide = v.astype(np.float64) if name in ("sum", "prod") else v
    return f(wide, axis=axes, keepdims=True).astype(np.float32)


def _scalar(op, v):
    if op == "where" or op == "where_b":
        return np.where(v[0] != 0, v[1], v[2]).astype(np.float32)
    if op == "where_i":
        return np.where(v[0] != 0, v[1], v[2])
    if op == "fma":
        return (v[0].astype(np.float64) * v[1] + v[2]).astype(np.float32)
    if op in ("rand", "randn", "randint"):
        return _random(op, v)
    for table, kind in ((UNARY, np.float32), (BINARY, np.float32)):
        if op in table:
            assert all(x.dtype == np.float32 for x in v), (op, [x.dtype for x in v])
            return np.asarray(table[op](*v), kind)
    for table in (INT_BINARY, INT_UNARY):
        if op in table:
            assert all(x.dtype == np.int64 for x in v), (op, [x.dtype for x in v])
            return np.asarray(table[op](*v), np.int64)
    if op in CONVERT:
        return np.asarray(CONVERT[op](v[0]))
    if op in BOOL_BINARY:
        return BOOL_BINARY[op](v[0] != 0, v[1] != 0).astype(np.float32)
    base = op.removesuffix("_i")
    assert base in COMPARE, op
    want = np.int64 if op.endswith("_i") else np.float32
    assert all(x.dtype == want for x in v), (op, [x.dtype for x in v])
    return COMPARE[base](*v).astype(np.float32)


def _random(op, v):
    """Not the device's stream: any reproducible numbers do for shape and range tests."""
    shape = np.broadcast_shapes(*(x.shape for x in v))
    seed, offset = (np.broadcast_to(x, shape) for x in v[:2])
    out = np.empty(shape, np.int64 if op == "randint" else np.float32)
    for place in np.ndindex(*shape):
        generator = np.random.default_rng([abs(int(seed[place])), int(offset[place])])
        if op == "randint":
            low, high = (int(np.broadcast_to(x, shape)[place]) for x in v[2:])
            out[place] = generator.integers(low, high)
        else:
            out[place] = generator.random() if op == "rand" else generator.standard_normal()
    return out


def _stored(value, dtype):
    if dtype in ("float16", "bfloat16"):
        return _plainly_stored(value)
    if dtype == "bool":
        return (np.asarray(value) != 0).astype(np.float32)
    if dtype == "float32":
        return np.asarray(value, np.float32)
    if dtype.startswith("float8"):
        return (
            torch.from_numpy(np.ascontiguousarray(np.atleast_1d(value)))
            .to(DTYPES[dtype])
            .float()
            .numpy()
        )
    return (
        np.asarray(value)
        .astype(
            {
                "int8": np.int8,
                "int16": np.int16,
                "int32": np.int32,
                "int64": np.int64,
                "uint8": np.uint8,
            }[dtype]
        )
        .astype(np.int64)
    )


def _to_lanes(flat):
    if flat.dtype in (torch.float16, torch.bfloat16):
        wide = flat.detach().float().numpy()
        return np.where(np.isinf(wide), np.copysign(2.0**32, wide), round_sen169(wide)).astype(
            np.float32
        )
    if flat.dtype.is_floating_point or flat.dtype is torch.bool:
        return flat.detach().float().numpy().copy()
    return flat.detach().to(torch.int64).numpy().copy()


def _from_lanes(lanes, flat, dtype):
    value = torch.from_numpy(lanes)
    if DTYPES[dtype] is torch.bool:
        value = value != 0
    flat.copy_(value.to(flat.dtype))


def _list(text):
    depth, part, parts = 0, "", []
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [*parts, part.strip()] if part.strip() else parts


def _eval(text, env):
    return int(eval(text, {"__builtins__": {}, "min": min, "max": max, "math": math}, dict(env)))
