# SPDX-License-Identifier: Apache-2.0
"""The IR by itself: indices against brute force, phases, passes on hand-made programs."""

from __future__ import annotations

import itertools
import math

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_vm import ReferenceProgram
from spyre_inductor.codegen.phases import plan_phases
from spyre_inductor.codegen.text import print_program
from spyre_inductor.config import CompilerConfig
from spyre_inductor.ir.expr import exact_quotient, print_expr
from spyre_inductor.ir.indexing import LoopSpace, NotAffineError
from spyre_inductor.ir.kernel import Builder, Kernel, Loop, Store, make_access
from spyre_inductor.ir.program import Buffer, Program
from spyre_inductor.passes.fuse import fuse
from spyre_inductor.passes.order_kernels import order_kernels
from spyre_inductor.pipeline import run_passes
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

F32 = torch.float32


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_indices_equal_brute_force(data):
    """Whatever LoopSpace says is affine gives the very same addresses."""
    extents = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=3))
    variables = [sympy.Symbol(f"p{n}", integer=True, nonnegative=True) for n in range(len(extents))]
    index = sympy.Integer(0)
    for _ in range(data.draw(st.integers(1, 3))):
        inner = sum(data.draw(st.sampled_from([0, 1, 2, 4, 12])) * v for v in variables)
        divisor, modulus = (
            data.draw(st.sampled_from([1, 2, 3, 4, 6])),
            data.draw(st.sampled_from([2, 3, 4, 8])),
        )
        kind = data.draw(st.integers(0, 2))
        term = [inner, FloorDiv(inner, divisor), ModularIndexing(inner, divisor, modulus)][kind]
        index = index + data.draw(st.sampled_from([1, 3, 16])) * term
    index = sympy.sympify(index)
    space = LoopSpace(
        variables, [], {v: sympy.Integer(e) for v, e in zip(variables, extents, strict=True)}
    )
    space.split_for([index])
    try:
        strides, offset = space.linear(index)
    except NotAffineError:
        return
    loops = space.ordered()
    for values in itertools.product(*(range(loop.extent) for loop in loops)):
        at = {loop.id: value for loop, value in zip(loops, values, strict=True)}
        host = {v: sum(scale * at[loop] for loop, scale in space.variables[v]) for v in variables}
        expected = int(index.subs(host))
        assert offset + sum(s * at[loop] for loop, s in strides.items()) == expected


def test_exact_quotient():
    s = sympy.Symbol("s0", integer=True, positive=True)
    assert exact_quotient(12, 4) == 3
    assert exact_quotient(12, 5) is None
    assert exact_quotient(64 * s, 16) == 4 * s
    assert exact_quotient(64 * s, s) == 64
    assert exact_quotient(s, 2) is None
    assert exact_quotient(64, s) is None


def test_print_expr():
    s, t = sympy.symbols("s0 s1", integer=True, positive=True)
    assert (
        eval(print_expr(3 * s + FloorDiv(t, 2) * s - 1), {}, {"s0": 5, "s1": 9})
        == 3 * 5 + 4 * 5 - 1
    )


def pointwise(builder, name, op, source, target, extents, strides, out_strides=None, arg2=None):
    loops = [Loop(e) for e in extents]
    access = make_access(source, {l.id: s for l, s in zip(loops, strides, strict=True)}, 0)
    value = builder.make("load", (None, None), "F", F32, access)
    if op:
        value = builder.make(op, (value,), "F", F32)
    out = make_access(
        target, {l.id: s for l, s in zip(loops, out_strides or strides, strict=True)}, 0
    )
    return Kernel(loops, [Store(out, value)], builder, name)


def reduction(builder, name, op, source, target, extents, strides, reduced):
    loops = [Loop(e, n in reduced) for n, e in enumerate(extents)]
    access = make_access(source, {l.id: s for l, s in zip(loops, strides, strict=True)}, 0)
    value = builder.make(op, (builder.make("load", (None, None), "F", F32, access),), "F", F32)
    kept = [l for l in loops if not l.reduce]
    step, out = 1, {}
    for loop in reversed(kept):
        out[loop.id], step = step, step * loop.extent
    return Kernel(
        sorted(loops, key=lambda l: l.reduce),
        [Store(make_access(target, out, 0), value)],
        builder,
        name,
    )


def program_of(kernels, shapes, removable=()):
    program = Program("test", kernels)
    for name, shape in shapes.items():
        stride = list(torch.empty(shape).stride())
        program.buffers[name] = Buffer(name, F32, list(shape), stride, removable=name in removable)
    return program


def execute(program, tensors):
    text = print_program(program)
    ReferenceProgram(text.text).launch([tensors[name] for name in text.args])
    return text.text


def test_producer_and_transposed_consumer_fuse():
    """The consumer walks the buffer in another order; its loops are matched by strides."""
    b = Builder()
    first = pointwise(b, "k0", "exp", "x", "y", [6, 4], [4, 1])
    second = pointwise(b, "k1", "neg", "y", "z", [2, 4, 3], [12, 1, 4], out_strides=[12, 3, 1])
    program = program_of(
        [first, second], {"x": (6, 4), "y": (6, 4), "z": (2, 4, 3)}, removable=("y",)
    )
    run_passes(program, CompilerConfig(), lambda name: name)
    assert len(program.kernels) == 1
    x, z = torch.randn(6, 4), torch.empty(2, 4, 3)
    text = execute(program, {"x": x, "z": z})
    assert "b2" not in text  # y is gone
    assert torch.allclose(z, -x.exp().view(2, 3, 4).transpose(1, 2))


def test_softmax_phases():
    b = Builder()
    top = reduction(b, "k0", "reduce_max", "x", "m", [5, 9], [9, 1], {1})
    loops = [Loop(5), Loop(9)]
    x = b.make(
        "load", (None, None), "F", F32, make_access("x", {loops[0].id: 9, loops[1].id: 1}, 0)
    )
    m = b.make("load", (None, None), "F", F32, make_access("m", {loops[0].id: 1}, 0))
    e = b.make("exp", (b.make("sub", (x, m), "F", F32),), "F", F32)
    out = Kernel(loops, [Store(make_access("y", {loops[0].id: 9, loops[1].id: 1}, 0), e)], b, "k1")
    fused = fuse([top, out], lambda name: name)
    assert len(fused) == 1
    assert [phase.reduce for phase in plan_phases(fused[0])] == [True, False, True]
    program = program_of(fused, {"x": (5, 9), "m": (5,), "y": (5, 9)}, removable=("m",))
    run_passes(program, CompilerConfig(), lambda name: name)
    x_value, y = torch.randn(5, 9), torch.empty(5, 9)
    execute(program, {"x": x_value, "y": y})
    assert torch.allclose(y, (x_value - x_value.amax(1, True)).exp())


def test_mismatched_read_does_not_fuse():
    b = Builder()
    first = pointwise(b, "k0", "exp", "x", "y", [6], [1])
    loop = Loop(6)
    shifted = b.make("load", (None, None), "F", F32, make_access("y", {loop.id: -1}, 5))
    second = Kernel([loop], [Store(make_access("z", {loop.id: 1}, 0), shifted)], b, "k1")
    assert len(fuse([first, second], lambda name: name)) == 2


def test_overwriting_does_not_fuse():
    b = Builder()
    first = pointwise(b, "k0", "exp", "x", "y", [6], [1])
    second = pointwise(b, "k1", "neg", "y", "x", [6], [1])
    assert len(fuse([first, second], lambda name: name)) == 2


def test_what_stays_inside_is_temporary():
    b = Builder()
    chain = ["a", "b", "c", "d", "e"]
    # reversals keep the kernels apart
    kernels = []
    for source, target in itertools.pairwise(chain):
        loop = Loop(8)
        value = b.make("load", (None, None), "F", F32, make_access(source, {loop.id: -1}, 7))
        kernels.append(
            Kernel([loop], [Store(make_access(target, {loop.id: 1}, 0), value)], b, f"to_{target}")
        )
    program = program_of(kernels, dict.fromkeys(chain, (8,)), removable=("b", "c", "d"))
    run_passes(program, CompilerConfig(), lambda name: name)
    temps = [n for n in program.used() if program.buffers[n].kind == "temp"]
    assert temps == ["b", "c", "d"]
    a, e = torch.randn(8), torch.empty(8)
    execute(program, {"a": a, "e": e})
    assert torch.equal(a, e)


def test_restickify_copies_operands_with_sticks_along_the_batch():
    b = Builder()
    batch, m, n, k = Loop(4), Loop(3), Loop(5), Loop(6, True)
    # a is [m, k, batch] in memory: its sticks run along the batch
    left = b.make(
        "load", (None, None), "F", F32, make_access("a", {batch.id: 1, m.id: 24, k.id: 4}, 0)
    )
    right = b.make(
        "load", (None, None), "F", F32, make_access("b", {batch.id: 30, k.id: 5, n.id: 1}, 0)
    )
    dot = b.make("dot", (left, right), "F", F32)
    out = make_access("c", {batch.id: 15, m.id: 5, n.id: 1}, 0)
    program = program_of(
        [Kernel([batch, m, n, k], [Store(out, dot)], b, "k0")],
        {"a": (3, 6, 4), "b": (4, 6, 5), "c": (4, 3, 5)},
    )
    run_passes(program, CompilerConfig(), lambda name: name)
    assert [kernel.name for kernel in program.kernels] == ["restickify_k0", "k0"]
    a, bb, c = torch.randn(3, 6, 4), torch.randn(4, 6, 5), torch.empty(4, 3, 5)
    execute(program, {"a": a, "b": bb, "c": c})
    assert torch.allclose(c, a.permute(2, 0, 1) @ bb, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("cores", [1, 3, 32])
def test_divisions_are_whole_sticks(cores):
    b = Builder()
    program = program_of(
        [pointwise(b, "k0", "exp", "x", "y", [3, 4096], [4097, 1], out_strides=[4096, 1])],
        {"x": (3, 4097), "y": (3, 4096)},
    )
    run_passes(program, CompilerConfig(cores=cores), lambda name: name)
    parts = 1
    for loop in program.kernels[0].loops:
        parts *= max(loop.parts, 1)
        if loop.parts:
            assert loop.extent == 3 or loop.extent // 32 >= loop.parts
    assert parts <= cores


def test_softmax_takes_one_reciprocal_a_row():
    """And what is done about rows without a finite value, once a row."""
    b = Builder()
    row, col = Loop(5), Loop(9, True)
    walk = {row.id: 9, col.id: 1}
    x = b.make("load", (None, None), "F", F32, make_access("x", walk, 0))
    zero = b.make("const_f", (), "F", F32, 0.0)
    bottom = b.make("const_f", (), "F", F32, -math.inf)
    finite = b.make("not_b", (b.make("eq", (x, bottom), "B", torch.bool),), "B", torch.bool)
    some = b.make("reduce_any", (finite,), "B", torch.bool)
    top = b.make("reduce_max", (x,), "F", F32)
    weight = b.make("exp", (b.make("sub", (x, top), "F", F32),), "F", F32)
    share = b.make("div", (weight, b.make("reduce_sum", (weight,), "F", F32)), "F", F32)
    y = b.make("where", (b.make("not_b", (some,), "B", torch.bool), zero, share), "F", F32)
    kernel = Kernel([row, col], [Store(make_access("y", walk, 0), y)], b, "k0")
    program = program_of([kernel], {"x": (5, 9), "y": (5, 9)})
    run_passes(program, CompilerConfig(), lambda name: name)
    ops = [v.op for v in program.kernels[0].values()]
    assert "div" not in ops
    assert "reduce_any" not in ops
    phases = [phase.reduce for phase in plan_phases(program.kernels[0])]
    assert phases == [True, False, True, False, True]
    x_value, out = torch.randn(5, 9), torch.empty(5, 9)
    x_value[1] = -math.inf
    x_value[2, 3] = -math.inf
    x_value[3, 4] = math.nan
    execute(program, {"x": x_value, "y": out})
    want = x_value.softmax(1)
    want[1] = 0
    torch.testing.assert_close(out, want, equal_nan=True)


def test_casts_that_keep_infinities_are_one_instruction():
    b = Builder()
    loop = Loop(8)
    x = b.make("load", (None, None), "F", F32, make_access("x", {loop.id: 1}, 0))

    def cast(test, tested, operand, infinity):
        sign = b.make("copysign", (b.make("const_f", (), "F", F32, infinity), operand), "F", F32)
        return b.make("where", (b.make(test, (tested,), "B", torch.bool), sign, operand), "F", F32)

    wide = cast("isinf_sen169", b.make("round_sen169", (x,), "F", F32), x, math.inf)
    kernel = Kernel(
        [loop],
        [Store(make_access("y", {loop.id: 1}, 0), cast("isinf", wide, wide, 2.0**32))],
        b,
        "k0",
    )
    program = program_of([kernel], {"x": (8,), "y": (8,)})
    run_passes(program, CompilerConfig(), lambda name: name)
    ops = [v.op for v in program.kernels[0].values()]
    assert ops == ["load", "inf_from_sen169", "inf_to_sen169"]
    x_value = torch.tensor([0.0, 1.0, -(2.0**32), 2.0**32, math.inf, -math.inf, math.nan, 5.0])
    out = torch.empty(8)
    execute(program, {"x": x_value, "y": out})
    want = torch.tensor([0.0, 1.0, -(2.0**32), 2.0**32, 2.0**32, -(2.0**32), math.nan, 5.0])
    assert torch.equal(out.nan_to_num(), want.nan_to_num())


def test_kernels_between_a_producer_and_its_consumer_go_first():
    b = Builder()
    # reversals keep the kernels apart
    kernels = [
        pointwise(b, "k0", "exp", "x", "y", [6], [1]),
        pointwise(b, "other", "neg", "u", "v", [7], [1]),
        pointwise(b, "k1", "neg", "y", "z", [6], [1]),
        pointwise(b, "late", "neg", "z", "w", [6], [1]),
    ]
    program = program_of(list(kernels), dict.fromkeys("xyzw", (6,)) | {"u": (7,), "v": (7,)})
    order_kernels(program, lambda name: name)
    assert [kernel.name for kernel in program.kernels] == ["other", "k0", "k1", "late"]
    # one that the producer feeds, or that overwrites what it reads, stays
    for source, target in (("y", "v"), ("u", "x")):
        kernels[1] = pointwise(b, "other", "neg", source, target, [6], [1])
        program = program_of(list(kernels), dict.fromkeys("xyzwuv", (6,)))
        order_kernels(program, lambda name: name)
        assert [kernel.name for kernel in program.kernels] == ["k0", "other", "k1", "late"]


def test_temporaries_have_whole_sticks_for_rows():
    """Heads of 12 x 16 channels that lie side by side are rows of 192; 12 x 5 are not joined."""
    b = Builder()
    for width, size, stride in ((16, [7, 192], [192, 1]), (5, [12, 7, 5], [5, 60, 1])):
        row = 12 * width
        kernels = []
        for source, target in (("x", "y"), ("y", "z")):
            head, line, channel = Loop(12), Loop(7), Loop(width)
            to = {head.id: width, line.id: row, channel.id: 1}
            back = {head.id: width, line.id: -row, channel.id: 1}
            value = b.make("load", (None, None), "F", F32, make_access(source, back, 6 * row))
            store = Store(make_access(target, to, 0), value)
            kernels.append(Kernel([head, line, channel], [store], b, f"to_{target}"))
        program = Program("test", kernels)
        for name in "xyz":
            program.buffers[name] = Buffer(
                name, F32, [12, 7, width], [width, row, 1], removable=name == "y"
            )
        run_passes(program, CompilerConfig(), lambda name: name)
        assert (program.buffers["y"].size, program.buffers["y"].stride) == (size, stride)


def test_conditions_that_always_hold_vanish():
    b = Builder()
    loop = Loop(8)
    x = b.make("load", (None, None), "F", F32, make_access("x", {loop.id: 1}, 0))
    number = b.make("iota", (), "I", torch.int64, loop.id)

    def compare(op, bound):
        constant = b.make("const_i", (), "I", torch.int64, bound)
        return b.make(op, (number, constant), "B", torch.bool)

    always = b.make("and_b", (compare("ge_i", 0), compare("lt_i", 8)), "B", torch.bool)
    some = b.make("and_b", (always, compare("lt_i", 3)), "B", torch.bool)
    zero = b.make("const_f", (), "F", F32, 0.0)
    y = b.make("where", (some, x, zero), "F", F32)
    store = Store(make_access("y", {loop.id: 1}, 0), y)
    program = program_of([Kernel([loop], [store], b, "k0")], {"x": (8,), "y": (8,)})
    run_passes(program, CompilerConfig(), lambda name: name)
    assert [v.op for v in program.kernels[0].values()].count("and_b") == 0
    x_value, out = torch.randn(8), torch.empty(8)
    execute(program, {"x": x_value, "y": out})
    assert torch.equal(out, torch.where(torch.arange(8) < 3, x_value, 0.0))
