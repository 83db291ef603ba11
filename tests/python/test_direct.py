"""Sums over all pairs and waves in one pass (`method="direct"`), in every namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import assert_close, required
from differences import check_torch
from test_pme import EVERYTHING, TRICLINIC, batch, difference, rms, salt

DIRECT = {"method": "direct", **EVERYTHING}


def systems() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Cells in which nearest images, two of them, and both along different axes are the cheapest."""
    rng = np.random.default_rng(5)
    r, q, h = salt(0, 2)
    left = TRICLINIC[[1, 0, 2]] * 0.7
    return {
        "few": (r, q, h),
        "many": salt(1),
        "left-handed": (rng.permutation(salt(2)[0] @ np.linalg.inv(TRICLINIC) @ left), q.repeat(8), left),
        "long": salt(3, 2, np.diag([4.0, 5.0, 14.0])),
        "charged": (r, q + 0.3, h),
    }


def parameters(system: tuple[np.ndarray, ...], images: int) -> dict[str, float]:
    """Parameters whose cutoff needs so many images, with converged sums (1e-15) of either part."""
    height = 1.0 / np.linalg.norm(np.linalg.inv(system[2]), axis=0).max()
    cutoff = height * images / 2
    return {"alpha": 5.8 / cutoff, "cutoff": cutoff, "k_cutoff": 2 * 5.8**2 / cutoff}


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("name", systems())
def test_equals_the_sum_over_a_list(name: str, images: int) -> None:
    r, q, h = systems()[name]
    r = r + np.random.default_rng(0).integers(-2, 3, (len(r), 3)) @ h  # atoms anywhere
    for reduction in ("atom", "system"):
        given = {**parameters((r, q, h), images), "accuracy": None, "energy_reduction": reduction}
        listed = mn.ewald_summation(r, q, h, **given, **EVERYTHING)
        for a, b in zip(mn.ewald_summation(r, q, h, **given, **DIRECT), listed):
            assert_close(a, b, 1e-13, 0.1)


def test_truncated_sums_are_equal_too() -> None:
    r, q, h = salt(4)
    for cutoff in (3.0, 5.0, 7.7):
        given = {"alpha": 0.4, "cutoff": cutoff, "k_cutoff": 2.5, "accuracy": None}
        listed = mn.ewald_summation(r, q, h, **given, **EVERYTHING)
        miller, of = mn.generate_miller_indices(h, 2.5)
        waves = {"miller_indices": miller, "miller_batch_idx": of, "k_cutoff": None}
        for options in ({}, waves):
            for a, b in zip(mn.ewald_summation(r, q, h, **{**given, **options}, **DIRECT), listed):
                assert_close(a, b, 1e-13, 0.1)


def test_derivatives_by_differences() -> None:
    r, q, h = salt(5, 2, TRICLINIC / 2)
    given = {"alpha": 0.7, "cutoff": 4.9, "k_cutoff": 6.0, "accuracy": None}
    # All pairs are closer than the cutoff, or farther by more than the steps.
    energies, forces, potentials, virial = mn.ewald_summation(r, q, h, **given, **DIRECT)
    energy = lambda r, q, h: np.sum(mn.ewald_summation(r, q, h, **given, method="direct"))  # noqa: E731
    rng = np.random.default_rng(0)
    u, v, strain = rng.normal(size=r.shape), rng.normal(size=q.shape), 0.1 * rng.normal(size=(3, 3))
    moved = difference(lambda t: energy(r + t * u, q, h), 1e-4)
    charged = difference(lambda t: energy(r, q + t * v, h), 1e-3)
    strained = difference(lambda t: energy(r @ (np.eye(3) + t * strain), q, h @ (np.eye(3) + t * strain)), 1e-4)
    assert abs(moved + (forces * u).sum()) < 1e-9 * rms(forces) * np.sqrt(u.size)
    assert abs(charged - (potentials * v).sum()) < 1e-10 * rms(potentials) * np.sqrt(v.size)
    assert abs(strained + (virial * strain).sum()) < 1e-8 * rms(virial)
    assert abs(energies.sum() - 0.5 * (q * potentials).sum()) < 1e-12 * abs(energies.sum())


def test_a_batch_is_its_systems() -> None:
    r, q, h, of = batch()
    for reduction in ("atom", "system"):
        options = {**DIRECT, "accuracy": 1e-5, "energy_reduction": reduction}
        together = mn.ewald_summation(r, q, h, batch_idx=of, **options)
        for b in range(3):
            alone = mn.ewald_summation(r[of == b], q[of == b], h[b], **options)
            energies = together[0][of == b] if reduction == "atom" else together[0][b : b + 1]
            found = (energies, together[1][of == b], together[2][of == b], together[3][b])
            assert all(np.array_equal(x, y) for x, y in zip(found, alone))


def test_mixed_boundaries() -> None:
    r, q, h, of = batch()
    h[2, 2] = [0.0, 0.0, 30.0]
    axes = [[True] * 3, [False] * 3, [True, True, False]]
    options = {**EVERYTHING, "slab_correction": True, "batch_idx": of, "accuracy": 1e-12}
    for second in ([False, True, False], [False] * 3):
        axes[1] = second
        listed, direct = (
            mn.ewald_summation(r, q, h, **options, pbc=axes, method=method) for method in ("list", "direct")
        )
        for a, b in zip(direct, listed):
            assert_close(a, b, 1e-11, 0.1)
    d = r[of == 1][:, None] - r[of == 1]
    length = np.linalg.norm(d, axis=2) + np.diag([np.inf] * 8)
    exact = 0.5 * (q[of == 1] * (q[of == 1][:, None] / length)).sum(1)
    assert_close(direct[0][of == 1], exact, 1e-13)


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-8])
def test_accuracy_is_kept(accuracy: float) -> None:
    for r, q, h in systems().values():
        _, exact = mn.ewald_summation(r, q, h, accuracy=1e-13, compute_forces=True)
        _, found = mn.ewald_summation(r, q, h, accuracy=accuracy, compute_forces=True, method="direct")
        unit = (q**2).mean() / (abs(np.linalg.det(h)) / len(q)) ** (2 / 3)
        assert np.sqrt(((found - exact) ** 2).sum(1).mean()) < accuracy * unit


def of_sizes() -> list[tuple[np.ndarray, ...]]:
    """Systems whose cheapest sums are over nearest images, a list, more images, and nearest images."""
    return [salt(1), salt(2, 10), salt(3, 2, np.diag([4.0, 5.0, 14.0])), salt(4)]


def together(systems: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Positions, charges, cells, and the system of each atom."""
    r, q, h = zip(*systems)
    return np.concatenate(r), np.concatenate(q), np.stack(h), np.repeat(np.arange(len(h)), [len(x) for x in q])


def test_each_system_has_the_cheapest_sum() -> None:
    systems, methods = of_sizes(), ("direct", "list", "direct", "direct")
    r, q, h, of = together(systems)
    options = {**EVERYTHING, "accuracy": 1e-4}
    for reduction in ("atom", "system"):
        options["energy_reduction"] = reduction
        singles = [mn.ewald_summation(*system, **options) for system in systems]
        for system, method, found in zip(systems, methods, singles):
            for a, b in zip(found, mn.ewald_summation(*system, **options, method=method)):
                assert np.array_equal(a, b)
        batched = mn.ewald_summation(r, q, h, **options, batch_idx=of)
        for found, *each in zip(batched, *singles):
            assert np.array_equal(found, np.concatenate(each).reshape(found.shape))
        energies = mn.ewald_summation(r, q, h, accuracy=1e-4, energy_reduction=reduction, batch_idx=of)
        assert np.array_equal(energies, batched[0])


def test_cheapest_sums_of_mixed_boundaries() -> None:
    systems = of_sizes()
    r, q, h, of = together([systems[n] for n in (0, 1, 3)])
    h[2, 2] = [0.0, 0.0, 40.0]
    options = {**EVERYTHING, "accuracy": 1e-12, "slab_correction": True, "batch_idx": of}
    for first in (True, False):
        axes = [[first] * 3, [True] * 3, [True, True, False]]
        found = mn.ewald_summation(r, q, h, **options, pbc=axes)
        for a, b in zip(found, mn.ewald_summation(r, q, h, **options, pbc=axes, method="list")):
            assert_close(a, b, 1e-11, 0.1)


def test_open_systems_have_the_same_sum_in_a_batch() -> None:
    molecule, large = salt(1), salt(2, 10)
    options = {**EVERYTHING, "accuracy": 1e-4, "energy_reduction": "system"}
    alone = mn.ewald_summation(*molecule, **options, pbc=False)
    for crystal in (molecule, large):
        r, q, h, of = together([molecule, crystal])
        energies, forces, potentials, virials = mn.ewald_summation(
            r, q, h, **options, batch_idx=of, pbc=[[False] * 3, [True] * 3]
        )
        for a, b in zip((energies[:1], forces[of == 0], potentials[of == 0], virials[0]), alone):
            assert np.array_equal(a, b)


def test_what_batches_of_several_sums_take() -> None:
    torch, mt = required("torch"), required("madelung.torch")

    r, q, h, of = together(of_sizes()[:2])
    expected = mn.ewald_summation(r, q, h, batch_idx=of)
    for axes in (True, np.bool_(True), [True] * 3, np.ones((2, 3), int)):
        assert np.array_equal(mn.ewald_summation(r, q, h, batch_idx=of, pbc=axes), expected)
    single = [x.astype(np.float32) for x in (r, h)]
    listed = mn.ewald_summation(single[0], q.tolist(), single[1], batch_idx=of.tolist())
    assert np.array_equal(listed, mn.ewald_summation(single[0], q.astype(np.float32), single[1], batch_idx=of))
    assert np.array_equal(mn.ewald_summation(r, q, h, batch_idx=of, accuracy=np.array(1e-6)), expected)
    bad, flat = r.copy(), h.copy()
    bad[500], flat[1, 2] = np.nan, flat[1, 1]
    tensors, idx = [torch.tensor(x) for x in (r, q, h)], torch.tensor(of)
    for match, call in {
        "`positions`.* atom 500": lambda: mn.ewald_summation(bad, q, h, batch_idx=of),
        "`charges`: expected shape": lambda: mt.ewald_summation(tensors[0], idx.repeat(2), tensors[2], batch_idx=idx),
        "`half_fill`": lambda: mn.ewald_summation(r[:64], q[:64], h[0], half_fill=True),
        "`cell`.*system 1": lambda: mn.ewald_summation(r, q, flat, batch_idx=of),
        "`batch_idx`": lambda: mt.ewald_summation(*tensors, batch_idx=idx.to(torch.uint8)),
    }.items():
        with pytest.raises((ValueError, TypeError), match=match):
            call()


def test_waves_of_a_batch() -> None:
    r, q, h, of = batch()
    given = {"alpha": 0.5, "cutoff": 2.5, "batch_idx": of, **DIRECT}
    miller, systems = mn.generate_miller_indices(h, 2.5)
    found = mn.ewald_summation(r, q, h, **given, miller_indices=miller, miller_batch_idx=systems)
    expected = mn.ewald_summation(r, q, h, **given, k_cutoff=2.5, accuracy=None)
    for a, b in zip(found, expected):
        assert_close(a, b, 1e-13, 0.1)
    wrong = [
        ("`miller_batch_idx`: expected the system of each index", {"miller_indices": miller}),
        ("`miller_batch_idx`: expected it with `miller_indices`", {"miller_batch_idx": systems}),
        ("`miller_batch_idx`: expected numbers of", {"miller_indices": miller, "miller_batch_idx": systems[::-1]}),
        ("`miller_batch_idx`: expected numbers of", {"miller_indices": miller, "miller_batch_idx": systems + 1}),
        ("`miller_indices`: expected wave .* in row 2", {"miller_indices": [*miller[:2], [0, 0, 0], *miller[3:]]}),
    ]
    for match, waves in wrong:
        waves = {"miller_batch_idx": systems, **waves} if "wave " in match else waves
        with pytest.raises((ValueError, TypeError), match=match):
            mn.ewald_summation(r, q, h, **given, **{k: np.array(x) for k, x in waves.items()})


def test_single_precision() -> None:
    r, q, h = (x.astype(np.float32) for x in salt(6))
    exact = mn.ewald_summation(*(x.astype(np.float64) for x in (r, q, h)), accuracy=1e-7, **DIRECT)
    for a, b in zip(mn.ewald_summation(r, q, h, **DIRECT), exact):
        assert a.dtype == np.float32
        assert rms(a - b) < 1e-5 * rms(b)


def test_bad_input() -> None:
    r, q, h = salt(7)
    lists = mn.neighbor_list(r, 3.0, h)

    def refused(match: str, **given: Any) -> None:
        with pytest.raises(ValueError, match=match):
            mn.ewald_summation(r, q, h, **{"method": "direct", **given})

    refused("`method`: expected 'direct' or 'list', got 'fast'", method="fast")
    for wrong in ([0, 0, 1, 2], [-1, 0, 1, 1], [1, 0, 1, 1]):
        with pytest.raises(ValueError, match="`batch_idx`: expected"):
            mn.ewald_summation(r[:4], q[:4], np.stack([h, h]), batch_idx=np.array(wrong))
    refused('`neighbors`: expected None with `method="direct"`', neighbors=mn.find_neighbors(r, 3.0, h))
    refused("`neighbor_list`: expected None", neighbor_list=lists[0], neighbor_ptr=lists[1], neighbor_shifts=lists[2])
    refused("`exclusions`: expected None", exclusions=np.array([[0, 1]]))
    refused("`widths`: expected None", widths=np.ones(len(r)))
    refused("`exponent`: expected 1 with", exponent=6)
    refused("`cutoff`: expected at most .* the smallest height", cutoff=12.0)
    refused("`accuracy`", accuracy=2.0)
    r[3] = r[5] + h[0]
    refused("`positions`: expected no two atoms on one point, got atoms 3 and 5")


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")

    r, q, h, of = batch()
    arrays = [torch.tensor(x) for x in (r, q, h)]
    options = {**DIRECT, "accuracy": 1e-5}
    expected = mn.ewald_summation(r, q, h, batch_idx=of, **options)
    for x, y in zip(mt.ewald_summation(*arrays, batch_idx=torch.tensor(of), **options), expected):
        assert np.array_equal(x.numpy(), y)
    system = [torch.tensor(x, requires_grad=True) for x in salt(8, 2, TRICLINIC / 2)]
    alpha = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    miller, _ = mt.generate_miller_indices(system[2].detach(), 5.0)
    given = {"cutoff": 4.9, "miller_indices": miller, "accuracy": None, "method": "direct"}

    def of_systems(r: Any, q: Any, h: Any, alpha: Any) -> Any:
        return mt.ewald_summation(r, q, h, alpha, **given, energy_reduction="system")

    def of_atoms(r: Any, q: Any, h: Any, alpha: Any) -> Any:
        return mt.ewald_summation(r, q, h, alpha, **given)

    def each(r: Any, q: Any, h: Any, alpha: Any) -> Any:
        return mt.ewald_summation(r, q, h, alpha, **given, compute_forces=True)

    for f in (of_systems, of_atoms):
        check_torch(f, [*system, alpha])
    # Molecules beside crystals, where no value is read.
    miller, idx = mt.generate_miller_indices(arrays[2], 2.5)
    mixed = {"alpha": 0.5, "cutoff": 2.5, "miller_indices": miller, "miller_batch_idx": idx, "method": "direct"}
    mixed |= {"pbc": [[True] * 3, [False] * 3, [True] * 3], "batch_idx": torch.tensor(of), "compute_forces": True}

    def with_molecules(r: Any, q: Any, h: Any) -> Any:
        return mt.ewald_summation(r, q, h, **mixed)

    graph = torch.compile(with_molecules, fullgraph=True, backend="aot_eager")
    for x, y in zip(graph(*arrays), with_molecules(*arrays)):
        assert_close(x.numpy(), y.numpy(), 1e-13, 0.1)
    compiled = torch.compile(each, fullgraph=True, backend="aot_eager")
    for x, y in zip(compiled(*system, alpha), each(*system, alpha)):
        assert_close(x.detach().numpy(), y.detach().numpy(), 1e-14, 0.1)


def test_derivatives_of_the_cheapest_sums() -> None:
    """Of a batch they are those of its systems."""
    torch, mt = required("torch"), required("madelung.torch")
    jax, mj = required("jax"), required("madelung.jax")

    systems = of_sizes()[:2]
    r, q, h, of = together(systems)
    options = {"accuracy": 1e-4, "energy_reduction": "system"}

    def gradients(*arrays: np.ndarray, **batch: Any) -> list[np.ndarray]:
        given = [torch.tensor(x, requires_grad=True) for x in arrays]
        energies = mt.ewald_summation(*given, **options, **batch)
        return [x.numpy() for x in torch.autograd.grad(energies.sum(), given)]

    expected = gradients(r, q, h, batch_idx=torch.tensor(of))
    singles = zip(*(gradients(*system) for system in systems))
    for join, batched, each in zip((np.concatenate, np.concatenate, np.stack), expected, singles):
        assert np.array_equal(batched, join(each))
    with jax.enable_x64(True):
        energy = lambda *system: mj.ewald_summation(*system, **options, batch_idx=of).sum()  # noqa: E731
        for a, b in zip(jax.grad(energy, (0, 1, 2))(*map(jax.numpy.asarray, (r, q, h))), expected):
            assert np.array_equal(a, b)


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")

    with jax.enable_x64(True):
        r, q, h, of = batch()
        options = {**DIRECT, "accuracy": 1e-5}
        expected = mn.ewald_summation(r, q, h, batch_idx=of, **options)
        arrays = [jax.numpy.asarray(x) for x in (r, q, h, of)]
        for x, y in zip(mj.ewald_summation(*arrays[:3], batch_idx=arrays[3], **options), expected):
            assert np.array_equal(x, y)
        miller, idx = mj.generate_miller_indices(arrays[2], 2.5)
        mixed = {"cutoff": 2.5, "miller_indices": miller, "miller_batch_idx": idx, "batch_idx": arrays[3], **DIRECT}
        mixed["pbc"] = np.array([[True] * 3, [False] * 3, [True] * 3])
        of_batch = lambda *system: mj.ewald_summation(*system, 0.5, **mixed)  # noqa: E731
        for x, y in zip(jax.jit(of_batch)(*arrays[:3]), of_batch(*arrays[:3])):
            assert_close(np.asarray(x), np.asarray(y), 1e-13, 0.1)
        r, q, h = map(jax.numpy.asarray, salt(8))
        miller, _ = mj.generate_miller_indices(h, 2.5)
        given = {"cutoff": 6.0, "miller_indices": miller, "accuracy": None, **DIRECT}
        call = lambda r: mj.ewald_summation(r, q, h, 0.5, **given)  # noqa: E731
        both = jax.vmap(jax.jit(call))(jax.numpy.stack([r, r + 0.1]))
        for x, y in zip(both, call(r)):
            assert_close(np.asarray(x)[0], np.asarray(y), 1e-14, 0.1)
