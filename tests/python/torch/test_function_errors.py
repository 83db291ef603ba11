"""What the public functions say to a call that cannot be right: which argument, what was expected, what came."""

from __future__ import annotations

import contextlib
import gc
import re
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import madelung.torch as mt

pytestmark = pytest.mark.host("errors of values come when a device is asked for them")

R = torch.tensor([[0.1, 0.2, 0.3], [1.0, 1.4, 0.2], [2.1, 0.5, 1.9], [0.4, 2.2, 2.6]], dtype=torch.float64)
Q = torch.tensor([1.0, -1.0, 0.5, -0.5], dtype=torch.float64)
CELL = torch.tensor([[3.0, 0.0, 0.0], [0.4, 3.2, 0.0], [-0.3, 0.5, 3.1]], dtype=torch.float64)
PAIRS, PTR, SHIFTS = mt.neighbor_list(R, 2.5, CELL)
MATRIX, _, MATRIX_SHIFTS = mt.neighbor_list(R, 2.5, CELL, format="matrix")
MILLER, WAVES = mt.generate_miller_indices(CELL, 5.0)

GOOD: dict[str, dict[str, Any]] = {
    "ewald_real_space": {
        "positions": R,
        "charges": Q,
        "cell": CELL,
        "alpha": 0.9,
        "cutoff": 2.5,
        "neighbor_list": PAIRS,
        "neighbor_ptr": PTR,
        "neighbor_shifts": SHIFTS,
    },
    "ewald_reciprocal_space": {"positions": R, "charges": Q, "cell": CELL, "alpha": 0.9, "k_cutoff": 5.0},
    "coulomb": {"positions": R, "charges": Q, "cell": CELL, "cutoff": 2.5},
    "ewald_summation": {"positions": R, "charges": Q, "cell": CELL},
    "estimate_ewald_parameters": {"positions": R, "charges": Q, "cell": CELL},
    "neighbor_list": {"positions": R, "cutoff": 2.5, "cell": CELL},
    "generate_miller_indices": {"cell": CELL, "k_cutoff": 5.0},
}


def changed(x: torch.Tensor, index: Any, value: float) -> torch.Tensor:
    x = x.clone()
    x[index] = value
    return x


NOT_REAL = [
    (R.numpy(), TypeError, "expected a tensor .*`torch.as_tensor`.*got float64 of shape"),
    (R.tolist(), TypeError, "expected a tensor .*got list"),
    (R.long(), TypeError, "expected float32 or float64.*got int64"),
    (R.bool(), TypeError, "expected float32 or float64.*got bool"),
    (R.half(), TypeError, "expected float32 or float64.*got float16"),
    (R.bfloat16(), TypeError, "expected float32 or float64.*got bfloat16"),
    (R.to(torch.complex128), TypeError, "expected float32 or float64.*got complex128"),
    (R.to_sparse(), TypeError, "expected a dense tensor"),
    (R.to("meta"), ValueError, "expected a tensor (with values|on meta).*got one on (meta|cpu)"),
    (R[0], ValueError, r"expected shape \(N, 3\), got \(3,\)"),
    (R[:, :2], ValueError, r"expected (shape \(N, 3\)|three coordinates with a cell), got \(4, 2\)"),
    (None, TypeError, "expected a tensor, got None"),
]
NOT_FINITE = [(changed(R, (2, 1), bad), ValueError, "finite") for bad in (torch.nan, torch.inf)]
CELLS = [
    (CELL.numpy(), TypeError, "expected a tensor"),
    (CELL.float(), TypeError, r"expected float64, as the positions \(convert `cell`\), got float32"),
    (CELL.long(), TypeError, r"expected float64, as the positions \(convert `cell`\), got int64"),
    (CELL.to("meta"), ValueError, "expected a tensor on cpu like `positions`.*got one on meta"),
    (CELL[0], ValueError, "expected shape"),
    (CELL[:2], ValueError, "expected shape"),
    (CELL[None, None], ValueError, "expected shape"),
    (torch.ones_like(CELL), ValueError, "expected"),
    (changed(CELL, (0, 0), torch.nan), ValueError, "expected|finite"),
]
CHARGES = [
    (Q.numpy(), TypeError, "expected a tensor"),
    (Q.float(), TypeError, r"expected float64, as the positions \(convert `charges`\), got float32"),
    (Q.bool(), TypeError, r"expected float64, as the positions \(convert `charges`\), got bool"),
    (Q.to("meta"), ValueError, "expected a tensor on cpu like `positions`.*got one on meta"),
    (Q[:3], ValueError, r"expected shape \(4,\), got \(3,\)"),
    (Q[:, None, None], ValueError, "expected shape"),
    (None, TypeError, "expected a tensor, got None"),
    (changed(Q, 1, torch.nan), ValueError, "finite"),
]
BATCHES = [
    (torch.tensor([0, 1, 0, 1]), ValueError, "expected"),
    (torch.tensor([-1, 0, 0, 0]), ValueError, "expected"),
    (torch.zeros(3, dtype=torch.int32), ValueError, r"expected shape \(4,\), got \(3,\)"),
    (torch.zeros(4), TypeError, "expected integers, got float32"),
    (torch.tensor([0, 0, 0, 2**40]), ValueError, "expected integers that 32 bits can hold"),
    (torch.tensor([0, 0, 0, 2**31 - 2]), ValueError, "expected systems numbered from 0"),
    (np.zeros(4, int), TypeError, "expected a tensor"),
    (torch.zeros(4, dtype=torch.int32, device="meta"), ValueError, "expected a tensor on cpu like `positions`"),
]
NUMBERS = [
    (0.0, ValueError, "above zero|> 0"),
    (-1.0, ValueError, "above zero|> 0"),
    (float("nan"), ValueError, "finite"),
    (float("inf"), ValueError, "finite"),
    ("1", TypeError, "expected a number"),
    (True, TypeError, "expected a number"),
]
PER_SYSTEM = [*NUMBERS, (torch.ones(3, dtype=torch.float64), ValueError, r"shape \(1,\), got \(3,\)")]
FLAGS = [(1, TypeError, "True or False"), ("yes", TypeError, "True or False"), (None, TypeError, "True or False")]
OPTIONS = {
    "prefactor": [(float("nan"), ValueError, "finite"), ("1", TypeError, "a number"), (None, TypeError, "a number")],
    "energy_reduction": [("sum", ValueError, "'atom' or 'system'"), (None, TypeError, "'atom' or 'system'")],
    "compute_forces": FLAGS,
    "compute_charge_gradients": FLAGS,
    "compute_virial": FLAGS,
    "hybrid_forces": FLAGS,
}
SYSTEM = {
    "positions": [*NOT_REAL, *NOT_FINITE],
    "charges": CHARGES,
    "cell": [*CELLS, (None, TypeError, "expected a tensor, got None")],
    "batch_idx": BATCHES,
}
# An estimate takes from positions their number alone, and of charges those that are finite.
ESTIMATED = {**SYSTEM, "positions": NOT_REAL, "charges": CHARGES[:-1]}
BAD: dict[str, dict[str, list[tuple[Any, type[Exception], str]]]] = {
    "ewald_real_space": {
        **SYSTEM,
        **OPTIONS,
        "alpha": PER_SYSTEM,
        "cutoff": NUMBERS,
        "half_fill": FLAGS,
        "neighbor_list": [
            (PAIRS.numpy(), TypeError, "expected a tensor"),
            (PAIRS.double(), TypeError, "expected integers, got float64"),
            (PAIRS[:1], ValueError, r"expected shape \(2, P\)"),
            (PAIRS.flip(1), ValueError, "expected pairs sorted by row i"),
            (changed(PAIRS, (1, 0), 4), ValueError, "expected.*4"),
            (changed(PAIRS, (1, 0), -1), ValueError, "expected"),
        ],
        "neighbor_ptr": [
            (PTR[:-1], ValueError, r"expected shape \(5,\), got \(4,\)"),
            (PTR + 1, ValueError, "expected where the rows of `neighbor_list` begin"),
            (PTR.tolist(), TypeError, "expected a tensor"),
        ],
        "neighbor_shifts": [
            (None, ValueError, "expected the image of each of the"),
            (SHIFTS[:-1], ValueError, "expected shape"),
            (SHIFTS.double(), TypeError, "expected integers"),
        ],
        "neighbor_matrix": [(MATRIX, ValueError, "expected one form of the list, got `neighbor_list` too")],
        "neighbor_matrix_shifts": [(MATRIX_SHIFTS, ValueError, "expected it with the list that it belongs to")],
        "fill_value": [(4, ValueError, "expected it with the list that it belongs to")],
    },
    "ewald_reciprocal_space": {
        **SYSTEM,
        **OPTIONS,
        "alpha": PER_SYSTEM,
        "k_cutoff": [*PER_SYSTEM, (None, ValueError, "the radius")],
        "miller_batch_idx": [(WAVES, ValueError, "expected it with `miller_indices`")],
    },
    # Whose damping is zero where none is given.
    "coulomb": {
        **SYSTEM,
        **OPTIONS,
        "cell": CELLS,
        "alpha": [(-1.0, ValueError, "from 0 up"), *NUMBERS[2:]],
        "cutoff": NUMBERS,
        "exponent": [(7, ValueError, "")],
        "pbc": [(1.5, TypeError, "True or False")],
    },
    "ewald_summation": {
        **SYSTEM,
        **OPTIONS,
        "cell": CELLS,
        "alpha": PER_SYSTEM,
        "k_cutoff": PER_SYSTEM,
        "cutoff": NUMBERS,
        "accuracy": NUMBERS,
        "pbc": [
            (torch.tensor([True, True, False]), ValueError, "two periodic axes with"),
            (1.5, TypeError, "True or False"),
        ],
    },
    "estimate_ewald_parameters": {
        **ESTIMATED,
        "alpha": PER_SYSTEM,
        "k_cutoff": PER_SYSTEM,
        "cutoff": NUMBERS,
        "accuracy": NUMBERS,
    },
    "neighbor_list": {
        "positions": [*NOT_REAL, *NOT_FINITE],
        "cutoff": NUMBERS,
        "cell": CELLS,
        "batch_idx": BATCHES,
        "pbc": [(torch.ones(3), TypeError, "True or False"), (torch.ones(2, dtype=torch.bool), ValueError, "shape")],
        "batch_ptr": [(torch.tensor([1, 4]), ValueError, "rise from 0"), ([0, 4], TypeError, "expected a tensor")],
        "return_distances": FLAGS,
        "return_vectors": FLAGS,
        "half_fill": FLAGS,
        "format": [("dense", ValueError, "'coo' or 'csr' or 'matrix'")],
        "max_neighbors": [(1, ValueError, "expected"), (-1, ValueError, "from 0 up"), (1.0, TypeError, "an integer")],
        "capacity": [(1, ValueError, "expected")],
        "method": [("magic", ValueError, "'cell_list' or 'brute_force'")],
    },
    "generate_miller_indices": {
        "cell": [*[x for x in CELLS if "positions" not in x[2]], (None, TypeError, "expected a tensor, got None")],
        "k_cutoff": PER_SYSTEM,
    },
}
TABLE = [
    pytest.param(f, name, *bad, id=f"{f}-{name}-{n}")
    for f, arguments in BAD.items()
    for name, table in arguments.items()
    for n, bad in enumerate(table)
]


@pytest.mark.parametrize(("function", "name", "bad", "kind", "message"), TABLE)
def test_bad_input(function: str, name: str, bad: Any, kind: type[Exception], message: str) -> None:
    arguments = {**GOOD[function], name: bad}
    if function == "ewald_real_space" and name == "batch_idx":
        arguments = {k: v for k, v in arguments.items() if not k.startswith("neighbor")}
    with pytest.raises(kind) as caught:
        getattr(mt, function)(**arguments)
    # Bad positions may show in what has to be like them.
    named = r"`(positions|charges|cell)`" if name == "positions" else f"`{name}`"
    assert re.match(f"{named}: .*({message})", str(caught.value)), str(caught.value)


@pytest.mark.parametrize("function", GOOD)
def test_good_input(function: str) -> None:
    getattr(mt, function)(**GOOD[function])


def test_two_charges_on_one_point() -> None:
    r = R.clone()
    r[3] = r[0] + CELL[1]
    for graph in (False, True):
        for call in (lambda *x, **y: mt.ewald_real_space(*x, 0.9, **y), mt.coulomb):
            with pytest.raises(ValueError, match="`positions`: expected no two atoms on one point, got atoms 0 and 3"):
                call(r.requires_grad_(graph), Q, CELL, cutoff=2.0, compute_forces=graph)


def test_numbers_that_may_be_zero_are_not_blamed() -> None:
    with pytest.raises(ValueError, match="`neighbor_shifts`: expected the image of each of the"):
        mt.coulomb(R, Q, CELL, cutoff=2.5, neighbor_list=PAIRS, neighbor_ptr=PTR)
    with pytest.raises(ValueError, match="`features`"):
        mt.radius_aggregate(R, R, R[:3], 2.0, 1.0, eps=0.0)


def test_lists_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="`cutoff`: expected the cutoff that the neighbour list was built for"):
        mt.ewald_summation(R, Q, CELL, neighbor_list=PAIRS, neighbor_ptr=PTR, neighbor_shifts=SHIFTS)
    with pytest.raises(ValueError, match="`cutoff`: expected the radius of the sum"):
        mt.ewald_real_space(R, Q, CELL, 0.9)
    with pytest.raises(ValueError, match="`k_cutoff`: expected it or `miller_indices`, got both"):
        mt.ewald_reciprocal_space(R, Q, CELL, 0.9, 5.0, miller_indices=MILLER)
    with pytest.raises(ValueError, match=r"`miller_indices`: expected shape \(K, 3\)"):
        mt.ewald_reciprocal_space(R, Q, CELL, 0.9, miller_indices=MILLER[:, :2])
    half = mt.neighbor_list(R, 2.5, CELL, half_fill=True)
    given = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), half))
    with pytest.raises(ValueError, match="expected a full list"):
        mt.ewald_real_space(R, Q, CELL, 0.9, **given)


def test_batches_that_do_not_fit() -> None:
    cells, idx = CELL.expand(2, 3, 3), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match="`batch_idx`: expected the system of each atom, as there are 2 cells"):
        mt.ewald_summation(R, Q, cells)
    with pytest.raises(ValueError, match="`batch_idx`"):
        mt.ewald_summation(R, Q, cells, batch_idx=idx + 1)
    with pytest.raises(ValueError, match="`miller_batch_idx`: expected the system of each index, as there are 2"):
        mt.ewald_reciprocal_space(R, Q, cells, 0.9, miller_indices=MILLER, batch_idx=idx)
    with pytest.raises(ValueError, match="`neighbor_list`: expected pairs within one system"):
        mt.ewald_real_space(
            *(R, Q, cells, 0.9), neighbor_list=PAIRS, neighbor_ptr=PTR, neighbor_shifts=SHIFTS, batch_idx=idx
        )


def test_a_failed_call_keeps_no_tensor() -> None:
    """Memory of a call that failed is free for the next one, after running out of memory say."""
    positions = R.clone()
    reference = weakref.ref(positions)
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            mt.ewald_summation(positions, Q[:3], CELL)
        del positions
        assert reference() is None
    finally:
        gc.enable()


def test_tensors_that_are_only_read_are_not_blamed_for_their_place() -> None:
    with pytest.raises(ValueError, match="`charges`: expected shape"):
        mt.ewald_reciprocal_space(R, Q[:3], CELL, 0.9, torch.tensor(5.0, device="meta"))


def test_lists_of_tensors_without_values() -> None:
    with pytest.raises(ValueError, match="`positions`: expected a tensor with values"):
        mt.neighbor_list(R.to("meta"), 2.5, CELL.to("meta"))


def test_traces_are_refused() -> None:
    """A trace would keep the list and leave out the gradient."""
    pairs = mt.find_neighbors(R, 2.5, CELL)
    with pytest.raises(ValueError, match="expected a call outside of `torch.jit.trace`"):
        torch.jit.trace(lambda r: mt.ewald_real_space(r, Q, CELL, 0.9, neighbors=pairs), (R,))


def test_make_fx_keeps_gradients_or_refuses() -> None:
    """What `make_fx` records has no gradient of its own: gradients are recorded, or nothing is."""
    pairs, ptr, shifts = mt.neighbor_list(R, 2.5, CELL)

    def energy(r: torch.Tensor) -> torch.Tensor:
        lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        return mt.ewald_real_space(r, Q, CELL, 0.9, cutoff=2.5, **lists).sum()

    with pytest.raises(ValueError, match="expected a call outside of `make_fx`"):
        make_fx(energy)(R)
    recorded = make_fx(torch.func.grad(energy))(R)
    at = 1.01 * R
    assert torch.allclose(recorded(at), torch.func.grad(energy)(at), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["batch_idx", "neighbor_list", "neighbor_ptr", "neighbor_shifts"])
def test_narrow_integers_are_named(name: str) -> None:
    pairs, ptr, shifts = mt.neighbor_list(R, 2.5, CELL)
    of = torch.zeros(len(R), dtype=torch.int32)
    given = {"batch_idx": of, "neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
    given[name] = given[name].to(torch.int16)
    with pytest.raises(TypeError, match=f"`{name}`: expected int32 or int64, got int16"):
        mt.ewald_real_space(R, Q, CELL[None], 0.9, cutoff=2.5, **given)
