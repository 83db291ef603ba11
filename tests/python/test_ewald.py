"""Ewald sums against stored references and against themselves in other forms."""

import numpy as np
import pytest

from conftest import CASES, Case, assert_close, rms
from madelung.numpy import (
    EwaldParameters,
    call,
    estimate_ewald_parameters,
    ewald_real_space,
    ewald_reciprocal_space,
    ewald_summation,
    generate_miller_indices,
    neighbor_list,
)

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}


ROUNDING = 2e-14
"""Of a converged sum, against the RMS of an array. Some 1e3 terms per element, each rounded to 1e-16, make 3e-15 where
their roundings do not depend on each other, and the worst of the stored cases shows that (the virial)."""


def converged(case: Case) -> dict[str, float]:
    """A split with nothing beyond the cutoffs: erfc(6.2) and exp(−6.2²) are 2e-18 and 2e-17."""
    volume = abs(np.linalg.det(case.cell))
    alpha = np.sqrt(np.pi) * (len(case.charges) / volume**2) ** (1 / 6)
    return {"alpha": alpha, "cutoff": 6.2 / alpha, "k_cutoff": 12.4 * alpha}


def same(a, b) -> bool:
    return len(a) == len(b) and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b))


def test_references_in_float64(case: Case):
    energies, forces, potentials, virial = ewald_summation(*case.system, **converged(case), **EVERYTHING)
    assert {a.dtype for a in (energies, forces, potentials, virial)} == {np.dtype(np.float64)}
    assert_close(energies, case.atom_energies, ROUNDING)
    assert_close(energies.sum(), case.energy, ROUNDING)
    assert_close(forces, case.forces, ROUNDING, case.least_forces)
    assert_close(potentials, case.charge_gradients, ROUNDING)
    assert_close(virial, case.virial, ROUNDING)


def test_references_with_chosen_parameters(case: Case):
    """An accuracy of 1e-14 is one of forces without order. Energies take the square of it; in crystals the waves at the
    cutoff add up, and virials weigh them by (k/2α)² ≈ 30."""
    energies, forces, potentials, virial = ewald_summation(*case.system, accuracy=1e-14, **EVERYTHING)
    assert_close(energies, case.atom_energies, ROUNDING)
    assert_close(energies.sum(), case.energy, ROUNDING)
    assert_close(forces, case.forces, 1e-13, case.least_forces)
    assert_close(potentials, case.charge_gradients, ROUNDING)
    assert_close(virial, case.virial, 1e-12)


def test_float32_against_float64_at_the_same_inputs(case: Case):
    rounded = [x.astype(np.float32) for x in case.system]
    p = estimate_ewald_parameters(*case.system, 1e-8)
    split = {"alpha": p.alpha, "cutoff": p.cutoff, "k_cutoff": p.k_cutoff}
    found = ewald_summation(*rounded, **split, **EVERYTHING)
    assert {a.dtype for a in found} == {np.dtype(np.float32)}
    exact = ewald_summation(*[x.astype(np.float64) for x in rounded], accuracy=1e-13, **EVERYTHING)
    for a, b in zip(found, exact):
        # Symmetry leaves crystals a small rest of what the pairs exert, and it is the pairs that are rounded.
        assert_close(a, b, 1e-5, rms(exact[2]) if rms(b) < 1e-2 * rms(exact[2]) else 0.0)


def test_the_total_does_not_depend_on_alpha(triclinic: Case):
    for alpha in (0.5, 0.8):
        found = ewald_summation(*triclinic.system, alpha, cutoff=6.2 / alpha, k_cutoff=12.4 * alpha, **EVERYTHING)
        expected = (triclinic.atom_energies, triclinic.forces, triclinic.charge_gradients, triclinic.virial)
        for a, b in zip(found, expected):
            assert_close(a, b, ROUNDING)


def test_the_parts_add_up(triclinic: Case):
    split = {"alpha": 0.6, "cutoff": 8.0, "k_cutoff": 6.0}
    whole = ewald_summation(*triclinic.system, **split, **EVERYTHING)
    real = ewald_real_space(*triclinic.system, split["alpha"], cutoff=split["cutoff"], **EVERYTHING)
    waves = ewald_reciprocal_space(*triclinic.system, split["alpha"], split["k_cutoff"], **EVERYTHING)
    for a, b, c in zip(whole, real, waves):
        assert_close(b + c, a, 1e-13)


def test_results_come_in_order_and_a_single_one_unwrapped(triclinic: Case):
    energies, forces, potentials, virial = ewald_summation(*triclinic.system, **EVERYTHING)
    alone = ewald_summation(*triclinic.system)
    assert isinstance(alone, np.ndarray)
    assert np.array_equal(alone, energies)
    two = ewald_summation(*triclinic.system, compute_virial=True)
    assert len(two) == 2
    assert_close(two[1], virial, 1e-13)
    two = ewald_summation(*triclinic.system, compute_charge_gradients=True)
    assert_close(two[1], potentials, 1e-13)
    total, again = ewald_summation(*triclinic.system, energy_reduction="system", compute_forces=True)
    assert total.shape == (1,)
    assert_close(total, np.array([energies.sum()]), 1e-13)
    assert_close(again, forces, 1e-13)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"accuracy": -1.0}, "`accuracy`: expected a number above zero, got -1.0"),
        ({"compute_forces": "yes"}, "`compute_forces`: expected True or False, got 'yes'"),
        ({"batch_idx": [-5, -4, -4, -3] * 2}, "`batch_idx`: expected systems numbered from 0"),
    ],
)
def test_arguments_that_play_no_part_are_checked(triclinic: Case, changed: dict, message: str):
    r, q, h = (x[:8] if len(x) > 3 else x for x in triclinic.system)
    with pytest.raises((TypeError, ValueError), match=message):
        ewald_summation(r, q, h, 0.4, cutoff=4.0, k_cutoff=3.0, **changed)


def test_wave_vectors_that_are_given(triclinic: Case):
    r, q, h = triclinic.system
    indices, of = generate_miller_indices(h, 3.0)
    by_cutoff = ewald_reciprocal_space(r, q, h, 0.4, 3.0, **EVERYTHING)
    assert same(ewald_reciprocal_space(r, q, h, 0.4, miller_indices=indices, **EVERYTHING), by_cutoff)
    assert same(
        ewald_reciprocal_space(r, q, h, 0.4, miller_indices=indices, miller_batch_idx=of, **EVERYTHING), by_cutoff
    )
    k = indices @ (2 * np.pi * np.linalg.inv(h).T)
    assert np.linalg.norm(k, axis=1).max() <= 3.0
    with pytest.raises(ValueError, match="`k_cutoff`: expected it or `miller_indices`"):
        ewald_reciprocal_space(r, q, h, 0.4, 3.0, miller_indices=indices)


def test_ops_by_name(triclinic: Case):
    """The op of the distances of pairs: its values by hand, and its gradient by finite differences."""
    r, _, h = triclinic.system
    (i, j), ptr, shifts = neighbor_list(r, 4.0, h)
    weights = np.random.default_rng(1).normal(size=len(i))

    def lengths(r):
        _, d = call("pair_vectors", r, h[None], np.zeros(len(r), np.int32), ptr, j, shifts, 0)
        return d

    expected = np.linalg.norm(r[j] - r[i] + shifts @ h, axis=1)
    assert_close(lengths(r), expected, 1e-14)
    inputs = (r, h[None], np.zeros(len(r), np.int64), ptr, j, shifts, 0)
    by_positions, by_cell = call("pair_vectors", *inputs, cotangents=(None, weights))
    direction, step = np.random.default_rng(2).normal(size=r.shape), 1e-4
    difference = weights @ (lengths(r + step * direction) - lengths(r - step * direction)) / (2 * step)
    assert (by_positions * direction).sum() == pytest.approx(difference, rel=1e-7)
    assert by_cell.shape == (1, 3, 3)
    for message, arguments, options in [
        ("`name`: expected one of pair_vectors, ", ("pair_vector",), {}),
        ("`inputs`: expected 7 of them", ("pair_vectors", r), {}),
        ("`cotangents`: expected 2", ("pair_vectors", *inputs), {"cotangents": [weights]}),
        ("`cotangents`: expected a tuple", ("pair_vectors", *inputs), {"cotangents": weights}),
        ("`pairs_kind`: expected an integer", ("pair_vectors", *inputs[:-1], 0.5), {}),
        ("`cell`: expected float32, float64", ("pair_vectors", r, h[None].astype(complex), *inputs[2:]), {}),
        ("pairs", ("pair_vectors", *inputs[:4], j + 99, *inputs[5:]), {}),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            call(*arguments, **options)


def test_prefactor_scales_everything(triclinic: Case):
    plain = ewald_summation(*triclinic.system, **EVERYTHING)
    for a, b in zip(ewald_summation(*triclinic.system, prefactor=14.4, **EVERYTHING), plain):
        assert_close(a, 14.4 * b, 1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_form_of_a_list_gives_the_same_bits(triclinic: Case, dtype: type):
    system = [x.astype(dtype) for x in triclinic.system]
    r, _, cell = system
    split = {"alpha": 0.6, "cutoff": 7.0, "k_cutoff": 5.0}
    own = ewald_summation(*system, **split, **EVERYTHING)
    pairs, ptr, shifts = neighbor_list(r, 7.0, cell)
    matrix, _, matrix_shifts = neighbor_list(r, 7.0, cell, format="matrix", max_neighbors=300, fill_value=-1)
    half, half_ptr, half_shifts = neighbor_list(r, 7.0, cell, half_fill=True)
    skin, _, skin_shifts = neighbor_list(r, 8.0, cell)
    lists = {
        "coo": {"neighbor_list": pairs, "neighbor_shifts": shifts},
        "with ptr": {"neighbor_list": pairs, "neighbor_shifts": shifts, "neighbor_ptr": ptr},
        "int64": {"neighbor_list": pairs.astype(np.int64), "neighbor_shifts": shifts.astype(np.int64)},
        "matrix": {"neighbor_matrix": matrix, "neighbor_matrix_shifts": matrix_shifts, "fill_value": -1},
        "half": {
            "neighbor_list": half,
            "neighbor_shifts": half_shifts,
            "neighbor_ptr": half_ptr,
            "half_fill": True,
        },
    }
    for name, given in lists.items():
        assert same(ewald_summation(*system, **split, **given, **EVERYTHING), own), name
    tolerance = 1e-13 if dtype is np.float64 else 1e-5
    found = ewald_summation(*system, **split, neighbor_list=skin, neighbor_shifts=skin_shifts, **EVERYTHING)
    for a, b in zip(found, own):
        assert_close(a, b, tolerance)


def test_without_a_cutoff_all_pairs_of_a_list_count(triclinic: Case):
    pairs, _, shifts = neighbor_list(triclinic.positions, 5.0, triclinic.cell)
    given = {"neighbor_list": pairs, "neighbor_shifts": shifts}
    assert np.array_equal(
        ewald_real_space(*triclinic.system, 0.6, **given), ewald_real_space(*triclinic.system, 0.6, cutoff=5.0)
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_system_gives_the_same_bits_alone_and_in_a_batch(dtype: type):
    cases = [CASES[name] for name in ("MgO", "triclinic_random_charged", "triclinic_random_left_handed")]
    systems = [[x.astype(dtype) for x in case.system] for case in cases]
    alpha, k_cutoff, cutoff = [0.6, 0.65, 0.7], [5.0, 6.0, 6.0], 7.0
    batch_idx = np.repeat([0, 1, 2], [len(q) for _, q, _ in systems])
    batch = ewald_summation(
        np.concatenate([r for r, _, _ in systems]),
        np.concatenate([q for _, q, _ in systems]),
        np.stack([h for _, _, h in systems]),
        alpha,
        k_cutoff=k_cutoff,
        cutoff=cutoff,
        batch_idx=batch_idx,
        pbc=np.ones((3, 3), dtype=bool),
        **EVERYTHING,
    )
    assert batch[3].shape == (3, 3, 3)
    for b, system in enumerate(systems):
        alone = ewald_summation(*system, alpha[b], k_cutoff=k_cutoff[b], cutoff=cutoff, **EVERYTHING)
        mine = batch_idx == b
        assert same(alone, (batch[0][mine], batch[1][mine], batch[2][mine], batch[3][b]))


def test_one_cell_for_all_systems_and_empty_systems(triclinic: Case):
    r, q, cell = triclinic.system
    twice = ewald_summation(
        np.concatenate([r, r]),
        np.concatenate([q, q]),
        cell,
        batch_idx=np.repeat([0, 2], len(r)),
        energy_reduction="system",
        accuracy=1e-12,
    )
    assert_close(twice, np.array([triclinic.energy, 0.0, triclinic.energy]), 1e-12)
    more = ewald_summation(
        r, q, np.stack([cell] * 3), batch_idx=np.ones(len(r), int), energy_reduction="system", **EVERYTHING
    )
    assert more[0].shape == (3,)
    assert more[3].shape == (3, 3, 3)
    assert not more[3][[0, 2]].any()


def test_same_bits_every_time(case: Case):
    first = ewald_summation(*case.system, **EVERYTHING)
    for _ in range(3):
        assert same(ewald_summation(*case.system, **EVERYTHING), first)


def test_layouts_and_lists_are_taken_as_they_are(triclinic: Case):
    expected = ewald_summation(*triclinic.system, **EVERYTHING)
    r, q, cell = triclinic.system
    strided = np.zeros((len(r), 6))
    strided[:, ::2] = r
    unaligned = np.frombuffer(b"\0" + r.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(r.shape)
    forms = {
        "Fortran order": (np.asfortranarray(r), q, np.asfortranarray(cell)),
        "strided": (strided[:, ::2], np.repeat(q, 2)[::2], cell),
        "reversed": (r[::-1][::-1], q[::-1][::-1], cell),
        "big endian": (r.astype(">f8"), q.astype(">f8"), cell.astype(">f8")),
        "unaligned": (unaligned, q, cell),
        "read-only": tuple(np.frombuffer(x.tobytes()).reshape(x.shape) for x in (r, q, cell)),
        "lists": (r.tolist(), q.tolist(), cell.tolist()),
    }
    for name, form in forms.items():
        assert same(ewald_summation(*form, **EVERYTHING), expected), name


def test_inputs_stay_as_they_were(triclinic: Case):
    before = [x.copy() for x in triclinic.system]
    ewald_summation(*triclinic.system, **EVERYTHING)
    assert same(before, triclinic.system)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_atoms(dtype: type):
    nothing = (np.zeros((0, 3), dtype), np.zeros(0, dtype), np.eye(3, dtype=dtype))
    energies, forces, potentials, virial = ewald_summation(*nothing, **EVERYTHING)
    assert (energies.shape, forces.shape, potentials.shape) == ((0,), (0, 3), (0,))
    assert np.array_equal(virial, np.zeros((3, 3)))
    assert ewald_summation(*nothing, energy_reduction="system").tolist() == [0.0]
    assert ewald_summation(*nothing, batch_idx=[], energy_reduction="system").shape == (0,)
    assert ewald_real_space(*nothing, 1.0, cutoff=1.0).shape == (0,)
    assert ewald_reciprocal_space(*nothing, 1.0, 1.0).shape == (0,)


def test_one_atom():
    """Nijboer and Ruijgrok, J. Stat. Phys. 53, 361 (1988): −2.837297479480619/2 for a unit charge in a unit box."""
    energies, forces, potentials, virial = ewald_summation(
        [[0.3, 0.1, 7.0]], [2.0], np.eye(3).tolist(), accuracy=1e-13, **EVERYTHING
    )
    assert_close(energies, np.array([-2 * 2.8372974794806195]), 1e-12)
    assert_close(potentials, np.array([-2 * 2.8372974794806195]), 1e-12)
    assert rms(forces) < 1e-12
    # E scales as 1/length, so the trace of the virial is the energy.
    assert_close(virial, np.eye(3) * energies[0] / 3, 1e-12)


def test_charges_on_one_point_are_refused(triclinic: Case):
    r = triclinic.positions.copy()
    r[7] = r[3]
    with pytest.raises(ValueError, match="`positions`.*atoms 3 and 7"):
        ewald_summation(r, triclinic.charges, triclinic.cell)


def test_parameters(triclinic: Case):
    chosen = estimate_ewald_parameters(*triclinic.system, 1e-5)
    assert isinstance(chosen, EwaldParameters)
    assert all(isinstance(x, float) for x in (chosen.alpha, chosen.cutoff, chosen.k_cutoff))
    assert 0.5e-5 < chosen.predicted_force_error < 0.6e-5
    assert estimate_ewald_parameters(*triclinic.system, 1e-5, cutoff=6.0).cutoff == 6.0
    explicit = {"alpha": chosen.alpha, "cutoff": chosen.cutoff, "k_cutoff": chosen.k_cutoff}
    assert estimate_ewald_parameters(*triclinic.system, None, **explicit) == chosen
    assert estimate_ewald_parameters(*triclinic.system, 1e-5, **explicit) == chosen
    assert np.array_equal(
        ewald_summation(*triclinic.system, accuracy=1e-5, method="list"),
        ewald_summation(*triclinic.system, **explicit, accuracy=1e-5),
    )
    r, q, cell = triclinic.system
    batch = estimate_ewald_parameters(
        np.concatenate([r, r]), np.concatenate([q, q]), np.stack([cell, 2 * cell]), batch_idx=np.repeat([0, 1], len(r))
    )
    for x in (batch.alpha, batch.cutoff, batch.k_cutoff, batch.predicted_force_error):
        assert x.shape == (2,)


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-8])
def test_the_predicted_error_is_met(triclinic: Case, accuracy: float):
    _, forces = ewald_summation(*triclinic.system, accuracy=accuracy, compute_forces=True)
    n, volume = len(forces), abs(np.linalg.det(triclinic.cell))
    unit = np.mean(triclinic.charges**2) / (volume / n) ** (2 / 3)
    error = np.sqrt(np.mean(np.sum((forces - triclinic.forces) ** 2, axis=1))) / unit
    # tuning.rs: measured 0.6 to 1.6 of the prediction for random systems.
    assert error < 2.0 * accuracy


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integer_charges(dtype):
    """Formal charges are numbers like any others."""
    r, h = np.random.default_rng(3).random((6, 3)) * 5.0, 5.0 * np.eye(3)
    q = np.array([2, 1, 0, 3, 2, 1]).astype(dtype)
    for x in (np.float64, np.float32):
        expected = ewald_summation(r.astype(x), q.astype(x), h.astype(x))
        assert np.array_equal(ewald_summation(r.astype(x), q, h.astype(x)), expected)
    assert np.array_equal(ewald_summation(r, [2, 1, 0, 3, 2, 1], h), ewald_summation(r, q.astype(float), h))
