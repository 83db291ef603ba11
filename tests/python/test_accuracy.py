"""The promise of `accuracy`: the force error is within twice the target, or an error names the argument."""

import itertools

import numpy as np
import pytest

from madelung.numpy import estimate_ewald_parameters, ewald_summation

NAMES = ("alpha", "cutoff", "k_cutoff")


def fluid(rng, atoms):
    """Charges at random places, in a cell of any shape, no two closer than half the spacing."""
    spacing = 2.0
    cell = np.diag(rng.uniform(0.7, 1.4, 3)) + rng.uniform(-0.3, 0.3, (3, 3))
    cell *= spacing * (atoms / abs(np.linalg.det(cell))) ** (1 / 3)
    sites = []
    while len(sites) < atoms:
        s = rng.random(3)
        d = np.array(sites).reshape(-1, 3) - s
        d -= np.round(d)
        if not len(d) or np.linalg.norm(d @ cell, axis=1).min() > 0.5 * spacing:
            sites.append(s)
    charges = rng.uniform(0.3, 2.0, atoms) * np.where(np.arange(atoms) % 2, -1.0, 1.0)
    return np.array(sites) @ cell, charges - charges.mean(), cell


def forces(system, **given):
    return ewald_summation(*system, compute_forces=True, **given)[1]


def error(system, got, exact):
    _, charges, cell = system
    unit = (charges**2).mean() / (abs(np.linalg.det(cell)) / len(charges)) ** (2 / 3)
    return np.sqrt(((got - exact) ** 2).sum(1).mean()) / unit


def test_promise():
    """300 calls with random subsets of the parameters given, from half to twice those of the target."""
    rng = np.random.default_rng()
    seed = int(rng.integers(2**31))
    rng, refused, missed = np.random.default_rng(seed), 0, []
    for _ in range(30):
        system = fluid(rng, int(rng.integers(16, 60)))
        exact = forces(system, accuracy=1e-13)
        for _ in range(10):
            accuracy = 10 ** rng.uniform(-8, -3)
            best = estimate_ewald_parameters(*system, accuracy)
            subset = [name for name in NAMES if rng.random() < 0.5]
            given = {name: getattr(best, name) * 2 ** rng.uniform(-1, 1) for name in subset}
            try:
                left = error(system, forces(system, accuracy=accuracy, **given), exact)
            except ValueError as refusal:
                refused += 1
                # An argument is named, and not without reason.
                named = any(f"`{name}`" in str(refusal) for name in subset) and "accuracy" in str(refusal)
                left = estimate_ewald_parameters(*system, None, **given).predicted_force_error
                if not named or left < 0.7 * accuracy:
                    missed.append((accuracy, given, str(refusal)))
                continue
            if left > 2.0 * accuracy:
                missed.append((accuracy, given, left))
    assert not missed, (seed, missed)
    assert 20 < refused < 200, (seed, refused)


@pytest.mark.parametrize("name", NAMES)
def test_one_that_is_given_is_kept(name):
    system = fluid(np.random.default_rng(1), 40)
    best = estimate_ewald_parameters(*system, 1e-5)
    for factor in (0.6, 1.0, 1.7):
        given = {name: factor * getattr(best, name)}
        chosen = estimate_ewald_parameters(*system, 1e-5, **given)
        assert getattr(chosen, name) == given[name]
        assert chosen.predicted_force_error < 1.01e-5


def test_what_is_given_is_taken_as_it_is():
    """An accuracy is a promise of what is open; one that is stated, of all."""
    system = fluid(np.random.default_rng(2), 40)
    poor = {"alpha": 0.1, "cutoff": 5.0}
    with pytest.raises(ValueError, match=r"`cutoff`: expected at least .* an accuracy of 1e-6 with an alpha of 0.1"):
        ewald_summation(*system, accuracy=1e-6, **poor)
    assert np.isfinite(ewald_summation(*system, **poor)).all()
    left = estimate_ewald_parameters(*system, **poor)
    # As good as the cutoff allows, and no better: waves beyond it would be lost.
    assert (
        left.predicted_force_error
        < 1.5 * estimate_ewald_parameters(*system, **poor, k_cutoff=9.0).predicted_force_error
    )
    for one in NAMES:
        best = estimate_ewald_parameters(*system, 1e-6)
        chosen = estimate_ewald_parameters(*system, **{one: getattr(best, one)})
        assert chosen.predicted_force_error < 1e-6
    # The waves of the snippet that showed the defect.
    assert estimate_ewald_parameters(*system, 1e-6, 10.0, alpha=1.0).k_cutoff < 9.0


def test_batches_choose_per_system():
    """Default calls have the bits of a system alone in any batch."""
    rng = np.random.default_rng(3)
    systems = [fluid(rng, n) for n in (12, 90, 700)]
    together = [np.concatenate(x) for x in zip(*[(r, q) for r, q, _ in systems])]
    cells = np.stack([cell for _, _, cell in systems])
    of = np.repeat(np.arange(3, dtype=np.int32), [len(q) for _, q, _ in systems])
    for given in ({}, {"alpha": 0.6}, {"cutoff": 7.0}, {"k_cutoff": 5.0}):
        e, f = ewald_summation(*together, cells, batch_idx=of, compute_forces=True, **given)
        for b, system in enumerate(systems):
            alone, alone_forces = ewald_summation(*system, compute_forces=True, **given)
            np.testing.assert_array_equal(e[of == b], alone)
            np.testing.assert_array_equal(f[of == b], alone_forces)


def test_subsets_of_two():
    """Any two parameters leave the third to the accuracy, or cannot meet it."""
    system = fluid(np.random.default_rng(4), 30)
    best = estimate_ewald_parameters(*system, 1e-6)
    for names in itertools.combinations(NAMES, 2):
        given = {name: getattr(best, name) for name in names}
        again = estimate_ewald_parameters(*system, 1e-6, **given)
        for name in NAMES:
            assert getattr(again, name) == pytest.approx(getattr(best, name), rel=1e-9)
