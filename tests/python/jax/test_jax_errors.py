"""Bad input: Python exceptions in the words of every error of this library."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import ALPHA, CUTOFF, ON_CPU, OPS, listed, make, only_on_cpu, system, wait

import madelung.jax as mj
from kernel_cases import lennard_jones
from madelung import _native

R, Q, H = system(6)
LISTS = listed(R, H)
PAIRS = {name: array for name, array in LISTS.items() if name.startswith("neighbor")}
NAN = jnp.full((3, 3), jnp.nan)


def real_space(positions: Any = R, charges: Any = Q, cell: Any = H, alpha: Any = ALPHA, **options: Any) -> Any:
    return mj.ewald_real_space(positions, charges, cell, alpha, **{"cutoff": CUTOFF, **options})


def summation(positions: Any = R, charges: Any = Q, cell: Any = H, alpha: Any = ALPHA, **options: Any) -> Any:
    return mj.ewald_summation(positions, charges, cell, alpha, **{**LISTS, **options})


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: summation(R.astype(jnp.float16)), TypeError, "`positions`: expected float32 or float64, got float16"),
        (lambda: summation(R[:, :2]), ValueError, r"`positions`: expected shape \(N, 3\), got \(6, 2\)"),
        (lambda: summation(R[0]), ValueError, r"`positions`: expected shape \(N, 3\), got \(3,\)"),
        (lambda: summation(R.tolist()), TypeError, "`positions`: expected an array"),
        (lambda: summation(None), TypeError, "`positions`: expected an array"),
        (lambda: summation(charges=Q[:5]), ValueError, r"`charges`: expected shape \(6,\), got \(5,\)"),
        (lambda: summation(charges=Q.astype(jnp.float32)), TypeError, "`charges`: expected float64, as the positions"),
        (lambda: summation(cell=H[0]), ValueError, r"`cell`: expected shape \(3, 3\) or \(B, 3, 3\)"),
        (lambda: summation(cell=jnp.stack([H, H])), ValueError, "`batch_idx`: expected the system of each atom"),
        (lambda: real_space(cell=NAN), ValueError, "`cell`: expected finite lattice vectors"),
        (lambda: summation(cutoff=-1.0), ValueError, "`cutoff`: expected a number above zero, got -1.0"),
        (
            lambda: summation(cutoff=None, alpha=None),
            ValueError,
            "`cutoff`: expected the cutoff that the neighbour list",
        ),
        (lambda: summation(alpha=0.0), ValueError, "`alpha`: expected a number above zero"),
        (lambda: summation(alpha=jnp.ones(3)), ValueError, "`alpha`: expected a number, or shape"),
        (lambda: summation(prefactor="x"), TypeError, "`prefactor`: expected a number"),
        (lambda: summation(energy_reduction="atoms"), ValueError, "`energy_reduction`: expected 'atom' or 'system'"),
        (lambda: summation(compute_forces=1), TypeError, "`compute_forces`: expected True or False, got 1"),
        (lambda: summation(pbc=np.array([True, True, False])), ValueError, "`pbc`: expected two periodic axes with"),
        (lambda: summation(k_cutoff=3.0), ValueError, "`k_cutoff`: expected it or `miller_indices`, got both"),
        (lambda: summation(miller_indices=jnp.ones((4, 3))), TypeError, "`miller_indices`: expected integers"),
        (
            lambda: summation(
                neighbor_list=LISTS["neighbor_list"][:, :9], neighbor_shifts=LISTS["neighbor_shifts"][:9]
            ),
            ValueError,
            r"`neighbor_list`: expected room for \d+ pairs \(`capacity`\)" if ON_CPU else "capacity that is too small",
        ),
        pytest.param(
            lambda: summation(neighbor_list=LISTS["neighbor_list"].at[0].set(5)),
            ValueError,
            "`neighbor_list`: expected atom 0 in pair 0, as `neighbor_ptr` says, got atom 5",
            marks=only_on_cpu,
        ),
        (
            lambda: mj.NeighborList(CUTOFF).update(mj.NeighborList(CUTOFF).allocate(R, H), R * jnp.nan, H),
            ValueError,
            "`positions`: expected finite coordinates",
        ),
        (lambda: mj.neighbor_list(R, CUTOFF, H, capacity=7), ValueError, r"`capacity`: expected at least \d+"),
        (lambda: mj.neighbor_list(R, CUTOFF, H, capacity=-7), ValueError, "`capacity`: expected an integer from 0 up"),
        (lambda: mj.neighbor_list(R, CUTOFF, H, capacity=999, format="matrix"), ValueError, "`format`: expected"),
        (lambda: mj.neighbor_list(R * jnp.nan, CUTOFF, H), ValueError, "`positions`: expected finite coordinates"),
        (lambda: mj.NeighborList(0.0), ValueError, "`cutoff`: expected a number above zero"),
        (lambda: mj.NeighborList(1.0, -1.0), ValueError, "`skin`: expected a number from 0 up"),
    ],
)
def test_at_once(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wait(call())


@pytest.mark.parametrize("name", [*PAIRS, "miller_indices", "batch_idx"])
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_integers_do_not_wrap(name: str, array: Any) -> None:
    """Beyond 32 bits: refused by value, or by the op where values are not known; a device records it. Offsets are then
    those of a list that has passed its capacity."""
    given = {**LISTS, "batch_idx": jnp.zeros(6, jnp.int32)}
    wide = array(np.asarray(given[name], np.int64) + 2**32)
    traced = jax.jit(lambda x: summation(cell=H[None], **{**given, name: x}))
    # There a list is one argument of the op, and what says how many systems there are is read.
    of_op = {"miller_indices": "miller"}.get(name, name)
    recorded = "pairs" if name in PAIRS else {"batch_idx": "(atoms|batch_idx)"}.get(name, of_op)
    beyond = f"`{name}`: expected integers that 32 bits can hold"
    with pytest.raises(ValueError, match=beyond if ON_CPU or array is np.asarray else f"{recorded}`: expected"):
        wait(summation(**{**given, name: wide}))
    if name == "neighbor_ptr" and ON_CPU:
        assert jnp.isnan(traced(wide)).all()
        return
    with pytest.raises(Exception, match=f"{of_op}`: expected integers from -2" if ON_CPU else f"{recorded}`: expected"):
        wait(traced(wide))


def test_wide_integers_of_kernels_do_not_wrap() -> None:
    """Images may have any sign: none stands for what is no image."""
    pairs = tuple(PAIRS.values())
    rest = {"cell": H[None], "σ": 1.9, "epsilon": 0.5, "cutoff": 2.0, "atoms": jnp.zeros(6, jnp.int32)}
    energy = jax.jit(lambda *pairs: lennard_jones(R, pairs=pairs, **rest))
    wide = [jnp.asarray(x, jnp.int64) for x in pairs]
    assert (energy(*wide) == lennard_jones(R, pairs=pairs, **rest)).all()
    for n in (0, 2):
        with pytest.raises(Exception, match="expected integers from -2" if ON_CPU else "pairs`: expected"):
            wait(energy(*[x + 2**32 * (k == n) for k, x in enumerate(wide)]))


def test_int64_where_values_are_not_known() -> None:
    """The same program for lists of either width, transforms included; unsigned integers are refused."""
    given = {name: x for name, x in LISTS.items() if name != "cutoff"} | {"batch_idx": jnp.zeros(6, jnp.int32)}
    energy = jax.jit(lambda r, x: summation(r, cell=H[None], **x))
    forces = jax.jit(jax.grad(lambda r, x: energy(r, x).sum()))
    wide = {name: x.astype(jnp.int64) for name, x in given.items()}
    many = jnp.stack([R, R + 0.01])
    for f in (energy, forces):
        assert (f(R, wide) == f(R, given)).all()
        assert (jax.vmap(f, (0, None))(many, wide) == jnp.stack([f(r, given) for r in many])).all()
    with pytest.raises(TypeError, match=r"`neighbor_ptr`: expected int32 or int64 where values .*, got uint32"):
        energy(R, {**given, "neighbor_ptr": given["neighbor_ptr"].astype(jnp.uint32)})
    search = mj.NeighborList(1.5, form="rows")
    kept = search.allocate(R, H[None], batch_idx=wide["batch_idx"])
    moved = jax.jit(lambda n, of: search.update(n, R + 0.3 * jnp.eye(6, 3), H[None], batch_idx=of))
    assert (moved(kept, wide["batch_idx"]).columns == moved(kept, given["batch_idx"]).columns).all()
    with pytest.raises(Exception, match="batch_idx`: expected" if ON_CPU else "`: expected"):
        wait(moved(kept, wide["batch_idx"] + 2**32))


@only_on_cpu
@pytest.mark.parametrize("ptr", [[5, 6], [0, 7], [0, 4, 2, 6]])
def test_offsets_of_other_atoms_under_jit(ptr: list[int]) -> None:
    cells = jnp.stack([H] * (len(ptr) - 1))
    search = jax.jit(lambda x: mj.neighbor_list(R, CUTOFF, cells, batch_ptr=x, capacity=4000))
    with pytest.raises(Exception, match="`batch_idx`: expected system indices"):
        wait(search(jnp.array(ptr)))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: mj.ewald_summation(r, Q, H), "`positions`: expected an array with a value.*outside of `jit`"),
        (lambda r: mj.neighbor_list(r, CUTOFF, H), "`capacity`: expected the number of pairs.*under `jit`, got None"),
        (lambda r: summation(cutoff=r[0, 0]), "`cutoff`: expected a number that is known when the function is traced"),
        (
            lambda r: mj.neighbor_list(R, r[0, 0], H, capacity=99),
            "`cutoff`: expected a number that is known when the function is traced",
        ),
        (lambda r: summation(prefactor=r[0, 0]), "`prefactor`: expected a number that is known"),
        (
            lambda r: summation(r, half_fill=True),
            "`neighbor_list`: expected a full list.*under `jit`|half list|full list",
        ),
        (lambda r: mj.generate_miller_indices(r[:3], 3.0), "`cell`: expected an array with a value"),
    ],
)
def test_while_a_function_is_traced(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        jax.jit(call)(R)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: summation(cell=x * jnp.nan), "`cell`: expected finite"),
        (lambda x: summation(cell=x.at[0].set(x[1])), "`cell`: expected"),
        (lambda x: summation(R.at[1].set(R[0]) + 0 * x[0], neighbor_shifts=0 * LISTS["neighbor_shifts"]), "`"),
        (lambda x: summation(alpha=-jnp.abs(x[0, 0])), "`alpha`: expected"),
        (
            lambda x: summation(cell=x, neighbor_list=LISTS["neighbor_list"].at[1].add(50)),
            "`pairs: neighbor_list`: expected indices",
        ),
        (lambda x: mj.neighbor_list(x * jnp.nan, CUTOFF, x, capacity=99), "`positions`: expected finite coordinates"),
    ],
)
def test_what_only_a_run_shows(call: Callable[[Any], Any], text: str) -> None:
    """XLA raises, with the same text; on a device it is recorded there."""
    # There arguments have the op's name in front.
    error, text = (jax.errors.JaxRuntimeError, text) if ON_CPU else (ValueError, text.replace("`", "", 1))
    with pytest.raises(error, match=text):
        wait(jax.jit(call)(H))


def test_ops_say_what_is_wrong() -> None:
    case = make(next(iter(OPS)))
    with pytest.raises(TypeError, match="expected .* arguments"):
        case.family(*case.args[:-1])
    with pytest.raises(ValueError, match="`positions`: expected one of floating-point numbers, got float16"):
        case.family(case.args[0].astype(jnp.float16), *case.args[1:])
    with pytest.raises(ValueError, match="`positions`: expected 2 axes"):
        case.family(case.args[0][0], *case.args[1:])


def for_cuda(f: Callable[..., Any], *xs: Any) -> str:
    """The program for a device that need not be there."""
    return jax.jit(f).trace(*xs).lower(lowering_platforms=("cuda",)).as_text()


def test_programs_for_cuda_have_the_calls_with_scratch_as_a_result() -> None:
    for f, target in ((real_space, "ewald_real_space_v1"), (jax.grad(lambda r: summation(r).sum()), "_vjp")):
        text = for_cuda(functools.partial(f, **PAIRS) if f is real_space else f, R)
        (call,) = [line for line in text.splitlines() if "custom_call @madelung." in line and target in line]
        name, results = call.split("custom_call @")[1].split("(")[0], call.split("->")[-1]
        assert name.endswith(f"{target}_with_scratch")
        (scratch,) = re.findall(r"tensor<(\d+)xui8>", results)
        # The status word of a call is 256 bytes, and as many again are for where it begins.
        assert int(scratch) >= 512
    plain = jax.jit(functools.partial(real_space, **PAIRS)).trace(R).lower(lowering_platforms=("cpu",)).as_text()
    assert "custom_call @madelung." in plain and "ui8" not in plain


def test_the_search_for_cuda_has_its_scratch_too() -> None:
    text = for_cuda(lambda r: mj.neighbor_list(r, CUTOFF, H, capacity=99), R)
    assert re.search(r"@madelung.neighbor_search_v1_with_scratch\(.*tensor<\d+xui8>\)", text)
    by_steps = for_cuda(lambda r: mj.NeighborList(CUTOFF).update(mj.NeighborList(CUTOFF).allocate(R, H), r, H), R)
    assert "@madelung.neighbor_search_v1_with_scratch(" in by_steps


def test_scratch_is_a_matter_of_sizes() -> None:
    def scratch(atoms: int, pairs: int, dtype: Any = jnp.int32) -> int:
        lists = {"neighbor_list": jnp.zeros((2, pairs), dtype), "neighbor_ptr": jnp.zeros(atoms + 1, dtype)}
        lists["neighbor_shifts"] = jnp.zeros((pairs, 3), dtype)
        energy = lambda r, lists: real_space(r, jnp.ones(atoms), **lists).sum()  # noqa: E731
        text = for_cuda(jax.grad(energy), jnp.zeros((atoms, 3)), lists)
        return sum(map(int, re.findall(r"tensor<(\d+)xui8>\)?$", text, re.MULTILINE)))

    assert 512 <= scratch(6, 100) == scratch(6, 100)
    assert scratch(20, 100) < scratch(20_000, 100)
    # Columns and images of int64 are copied to int32.
    assert scratch(20, 10_000, jnp.int64) >= scratch(20, 10_000) + 4 * 4 * 10_000


def test_a_program_for_cuda_of_open_sizes_takes_scratch_from_xla() -> None:
    from jax import export

    (pairs,) = export.symbolic_shape("pairs")
    shapes = ((6, 3), (pairs,), (pairs, 3))
    r, others, shifts = (jax.ShapeDtypeStruct(s, t) for s, t in zip(shapes, (np.float64, np.int32, np.int32)))

    def energies(r: Any, others: Any, shifts: Any) -> Any:
        lists = {"neighbor_list": jnp.stack([others, others]), "neighbor_ptr": PAIRS["neighbor_ptr"]}
        return real_space(r, neighbor_shifts=shifts, **lists)

    name = "madelung.ewald_real_space_v1"
    checks = [export.DisabledSafetyCheck.custom_call(name)]
    exported = export.export(jax.jit(energies), platforms=["cuda"], disabled_checks=checks)(r, others, shifts)
    assert f"@{name}(" in exported.mlir_module()


def as_target(name: str, platform: str) -> Callable[..., Any]:
    """The handler of a platform, registered for the CPU under a name of its own."""
    handlers = {of: plain for of, (plain, _) in _native.jax_handlers()[1]}
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(ctypes.c_void_p(handlers[platform])), platform="cpu")
    return jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((1,), np.float64))


@pytest.mark.parametrize("platform", ["cpu", "CUDA"])
def test_an_op_that_this_build_lacks(platform: str) -> None:
    """The handler for CUDA, too, here as one for the wrong platform."""
    call = as_target(f"madelung.test_none_{platform}", platform)
    there = jax.device_put(jnp.ones(1), jax.devices("cpu")[0])
    with pytest.raises(jax.errors.JaxRuntimeError, match="nothing_v9: this build of Madelung has no such op"):
        jax.block_until_ready(jax.jit(lambda x: call(x, target="nothing_v9"))(there))
