"""Values against `madelung.numpy`, known constants, and what does not depend on how a call is made."""

import numpy as np
import pytest
import torch
from cases import Case, make

import madelung.numpy as mn
from conftest import DEVICE
from madelung.torch import _lists, _ops


def crystal(repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rock salt with a distance of 1 between neighbours."""
    n = 2 * repeat
    positions = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3).astype(float)
    charges = 1.0 - 2.0 * (positions.sum(1) % 2)
    return positions, charges, np.eye(3) * n


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array).to(DEVICE)


def real_space(positions: np.ndarray, cell: np.ndarray, cutoff: float) -> list[torch.Tensor]:
    neighbors, ptr, shifts = mn.neighbor_list(positions, cutoff, cell)
    return [tensor(ptr), tensor(neighbors[1].copy()), tensor(shifts)]


def waves(cell: np.ndarray, k_cutoff: float) -> torch.Tensor:
    """Half of the reciprocal lattice up to a length."""
    most = int(k_cutoff * np.linalg.norm(cell, axis=1).max() / (2 * np.pi)) + 1
    grid = np.stack(np.meshgrid(*[np.arange(-most, most + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
    first = np.array([next((k for k in m if k), 0) for m in grid])
    near = np.linalg.norm(2 * np.pi * grid @ np.linalg.inv(cell).T, axis=1) < k_cutoff
    return tensor(grid[(first > 0) & near].astype(np.int32))


@pytest.mark.parametrize("per_system", [False, True])
def test_rock_salt(per_system: bool) -> None:
    """The Madelung constant of NaCl, 1.747 564 594 633 182 190 6 (Bailey et al. 2006)."""
    positions, charges, cell = crystal(2)
    alpha, cutoff, k_cutoff = 1.6, 3.8, 20.0
    idx, miller = torch.zeros(len(charges), dtype=torch.int32, device=DEVICE), waves(cell, k_cutoff)
    given = {
        "positions": tensor(positions),
        "charges": tensor(charges),
        "cell": tensor(cell)[None],
        "alpha": torch.tensor([alpha], dtype=torch.float64, device=DEVICE),
        "strain": torch.empty(0),
        "atoms": idx,
        "prefactor": 1.0,
        **dict(zip(("pairs_ptr", "pairs", "pairs_shifts"), real_space(positions, cell, cutoff))),
        "pairs_kind": 0,
        "cutoff": cutoff,
        "miller": miller,
        "waves": torch.zeros(len(miller), dtype=torch.int32, device=DEVICE),
    }
    name = "ewald_summation_total" if per_system else "ewald_summation"
    given["positions"].requires_grad_()
    e = getattr(_ops, name)(*[given[i.name] for i in _ops.OPS[name].inputs])
    assert e.shape == ((1,) if per_system else (64,))
    assert abs(float(e.sum()) / 64 * 2 + 1.7475645946331822) < 1e-13
    (g,) = torch.autograd.grad(e.sum(), given["positions"])
    assert float(g.abs().max()) < 1e-13, "no forces in a perfect crystal"


def test_as_numpy() -> None:
    case = make(_ops.OPS["ewald_real_space"])
    values = {i.name: x for i, x in zip(case.op.inputs, case.args)}
    rows = np.repeat(np.arange(8, dtype=np.int32), np.diff(values["pairs_ptr"].cpu().numpy()))
    expected, forces, by_charge = mn.ewald_real_space(
        values["positions"].cpu().numpy(),
        values["charges"].cpu().numpy(),
        values["cell"].cpu().numpy(),
        values["alpha"].cpu().numpy(),
        cutoff=values["cutoff"],
        neighbor_list=np.stack([rows, values["pairs"].cpu().numpy()]),
        neighbor_ptr=values["pairs_ptr"].cpu().numpy(),
        neighbor_shifts=values["pairs_shifts"].cpu().numpy(),
        batch_idx=values["atoms"].cpu().numpy(),
        prefactor=values["prefactor"],
        compute_forces=True,
        compute_charge_gradients=True,
    )
    xs = case.inputs()
    e = case.at(*xs)
    if DEVICE == "cpu":
        assert np.array_equal(e.detach().numpy(), expected), "the same bits"
    np.testing.assert_allclose(e.detach().cpu().numpy(), expected, rtol=1e-12, atol=1e-12)
    e.sum().backward()
    np.testing.assert_allclose(-xs[0].grad.cpu().numpy(), forces, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(xs[1].grad.cpu().numpy(), by_charge, rtol=1e-12, atol=1e-12)


def test_vectors() -> None:
    """r_ij = r_j − r_i + S · cell, and its length."""
    case = make(_ops.OPS["pair_vectors"])
    r, h, idx, ptr, j, s, _ = (x.cpu().numpy() if isinstance(x, torch.Tensor) else x for x in case.args)
    i = np.repeat(np.arange(len(r)), np.diff(ptr))
    expected = r[j] - r[i] + np.einsum("pk,pkc->pc", s, h[idx[i]])
    vectors, distances = case.at(*case.inputs())
    np.testing.assert_allclose(vectors.detach().cpu().numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(distances.detach().cpu().numpy(), np.linalg.norm(expected, axis=1), rtol=1e-14)


def test_single_precision(op_case: Case) -> None:
    exact, xs = op_case.inputs(), op_case.to(torch.float32).inputs()
    out = op_case.at(*[x.detach().requires_grad_() for x in xs])
    assert all(o.dtype == torch.float32 for o in (out if isinstance(out, tuple) else (out,)))
    exact = [x.detach().double().requires_grad_() for x in xs]
    op_case.scalar(*xs).backward()
    op_case.scalar(*exact).backward()
    for x, y in zip(xs, exact):
        assert x.grad.dtype == torch.float32
        error, scale = float((x.grad.double() - y.grad).norm()), float(y.grad.norm())
        # Terms are rounded to 6e-8, and those of steep potentials cancel: 2e-6 at most over six seeds. Promised: 1e-5.
        assert error <= 1e-5 * scale, (error, scale)


def test_layouts(op_case: Case) -> None:
    """Neither strides, nor offsets, nor the width of integers change a bit."""
    spread = []
    for x in op_case.args:
        if isinstance(x, torch.Tensor) and x.shape != (0,):
            wide = x.new_empty(*x.shape[:-1], 2 * x.shape[-1] + 1)
            wide[..., 1::2] = x
            x = wide[..., 1::2]
            assert not x.is_contiguous()
        spread.append(x)
    wide = [x.long() if isinstance(x, torch.Tensor) and x.dtype == torch.int32 else x for x in op_case.args]
    transposed = [x.mT.contiguous().mT if isinstance(x, torch.Tensor) and x.dim() > 1 else x for x in op_case.args]
    expected = op_case.call(*op_case.args)
    for args in (spread, wide, transposed):
        got = op_case.call(*args)
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)]):
            assert torch.equal(a, b) and a.is_contiguous()


@pytest.mark.host("on a device checked lists are not looked at again, and others always")
def test_lists_that_were_checked(op_case: Case) -> None:
    """The flag leaves out a check, and nothing else: indices are compared with the number of atoms all the same."""
    at = [i.part for i in op_case.op.inputs]
    if "list_kind" not in at:
        pytest.skip("no list")
    args = list(op_case.args)
    args[at.index("list_kind")] = 4
    expected = op_case.call(*op_case.args)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (op_case.call(*args), expected)]):
        assert torch.equal(a, b)
    for wrong in (8, -1, 2**31 - 1):
        args[at.index("others")] = op_case.args[at.index("others")].clone()
        args[at.index("others")][3] = wrong
        with pytest.raises(RuntimeError, match="neighbor_list`: expected indices from 0 to below 8"):
            op_case.call(*args)


@pytest.mark.host("on a device checked lists are not looked at again, and others always")
def test_long_lists_are_checked_once() -> None:
    """And again when they have changed; what is remembered dies with the list."""
    op = _ops.OPS["pair_vectors"]
    rng = np.random.default_rng(1)
    cell = 9.0 * np.eye(3)
    positions = rng.uniform(0, 9, (200, 3))
    ptr, others, shifts = real_space(positions, cell, 4.0)
    assert len(others) > _lists.MANY
    idx = torch.zeros(200, dtype=torch.int32, device=DEVICE)
    args = [tensor(positions), tensor(cell)[None], idx, ptr, others, shifts, 0]
    lists = _lists.Lists(op)
    assert lists.mark(args)[0][6] == 0
    expected = _ops.pair_vectors(*args)
    assert lists.mark(args)[0][6] == _lists.CHECKED
    for a, b in zip(_ops.pair_vectors(*args), expected):
        assert torch.equal(a, b)
    # Another kind, other tensors, fewer atoms: not what was checked.
    assert lists.mark([*args[:6], 1])[0][6] == 1
    assert lists.mark([*args[:5], shifts.clone(), 0])[0][6] == 0
    assert lists.mark([args[0][:-1], *args[1:]])[0][6] == 0
    shifts[0] += 1
    assert lists.mark(args)[0][6] == 0
    with pytest.raises(RuntimeError, match="expected a full list"):
        _ops.pair_vectors(*args)
    known = len(_lists._checked)
    del args, others, a, b
    assert len(_lists._checked) == known - 1
