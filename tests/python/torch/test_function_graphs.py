"""The public functions in graphs: compiled, exported, and where values decide on sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from systems import leaves, listed, system
from torch.func import jacrev

import madelung.torch as mt

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
ALPHA = 1.5


@pytest.fixture(autouse=True)
def _from_scratch() -> None:
    torch._dynamo.reset()


class Energies(torch.nn.Module):
    """Energies and all that comes with them, of tensors alone."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {"cutoff": 4.0, **EVERYTHING, **options}

    def forward(
        self,
        r: torch.Tensor,
        q: torch.Tensor,
        h: torch.Tensor,
        pairs: torch.Tensor,
        ptr: torch.Tensor,
        shifts: torch.Tensor,
        miller: torch.Tensor,
        of: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        return mt.ewald_summation(r, q, h, ALPHA, miller_indices=miller, miller_batch_idx=of, **given, **self.options)


def lists(r: torch.Tensor, h: torch.Tensor) -> list[torch.Tensor]:
    given = listed(r, h)
    names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "miller_indices", "miller_batch_idx")
    return [given[name] for name in names]


def gradients(out: tuple[torch.Tensor, ...], x: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(sum((o * o).sum() for o in out), x)


@pytest.mark.parametrize(
    ("reduction", "hybrid", "backend"),
    [("system", False, "inductor"), ("atom", False, "aot_eager"), ("system", True, "aot_eager")],
)
def test_compile(reduction: str, hybrid: bool, backend: str) -> None:
    """One graph for systems of every size, with losses on forces and virials."""
    f = Energies(energy_reduction=reduction, hybrid_forces=hybrid)
    compiled = torch.compile(f, fullgraph=True, dynamic=True, backend=backend)
    for atoms in (4, 6):
        r, q, h = system(atoms)
        given = lists(r, h)
        x, y = leaves(r, q, h), leaves(r, q, h)
        expected, got = f(*x, *given), compiled(*y, *given)
        for a, b in zip(got, expected):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        for a, b in zip(gradients(got, y), gradients(expected, x)):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*y, *given), f(*x, *given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["rows", "clusters", "coo", "capacity"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_exclusions(form: str, dynamic: bool) -> None:
    """Pairs that are in the list are left out of it in a graph too, which has as many entries as before."""
    names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")

    def f(r: Any, q: Any, h: Any, factors: Any, pairs: Any, given: Any, miller: Any) -> tuple[torch.Tensor, ...]:
        if form == "capacity":
            given = dict(zip(names, mt.neighbor_list(r, 4.0, h, capacity=4096)))
        given = {"cutoff": 4.0, "miller_indices": miller, "exclusions": (pairs, factors), **given, **EVERYTHING}
        return mt.ewald_summation(r, q, h, ALPHA, **given)

    compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend="inductor" if form == "coo" else "aot_eager")
    for atoms in (5, 7) if dynamic else (5,):
        r, q, h = system(atoms)
        pairs = torch.tensor([[0, 1], [3, 2], [1, 4]], device=r.device)
        given: dict[str, Any] = {}
        if form in ("rows", "clusters"):
            given = {"neighbors": mt.find_neighbors(r, 4.0, h, form=form)}
        elif form == "coo":
            given = dict(zip(names, mt.neighbor_list(r, 4.0, h)))
        miller, _ = mt.generate_miller_indices(h, 6.0)
        factors = q.new_tensor([0.0, 0.3, 1.0])
        x, y = leaves(r, q, h, factors), leaves(r, q, h, factors)
        expected, got = f(*x, pairs, given, miller), compiled(*y, pairs, given, miller)
        for a, b in zip((*got, *gradients(got, y)), (*expected, *gradients(expected, x))):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    r, q, h = system()
    given = lists(r, h)
    f = Energies(energy_reduction="system")
    exported = torch.export.export(f, (r, q, h, *given), strict=strict).module()
    for a, b in zip(exported(r, q, h, *given), f(r, q, h, *given)):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


def test_graphs_break_where_values_decide_on_sizes() -> None:
    r, q, h = system()

    def f(r: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs, ptr, shifts = mt.neighbor_list(r, 4.0, h)
        given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        e = mt.ewald_real_space(2 * r - r, q, h, ALPHA, cutoff=4.0, **given)
        return e, *mt.ewald_summation(r, q, h, compute_forces=True)

    for a, b in zip(torch.compile(f, backend="aot_eager")(r), f(r)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("call", ["neighbor_list", "ewald_summation", "matrix"])
def test_whole_graphs_say_what_cannot_be_in_them(call: str) -> None:
    r, q, h = system()
    matrix, _, shifts = mt.neighbor_list(r, 4.0, h, format="matrix")

    def f(r: torch.Tensor) -> Any:
        if call == "neighbor_list":
            return mt.neighbor_list(r, 4.0, h)
        if call == "matrix":
            return mt.ewald_real_space(r, q, h, ALPHA, neighbor_matrix=matrix, neighbor_matrix_shifts=shifts)
        return mt.ewald_summation(r, q, h)

    # PyTorch 2.7 does not say for what reason.
    said = "torch.compiler.disable" if torch.__version__.startswith("2.7") else "sizes depend on values"
    with pytest.raises(torch._dynamo.exc.Unsupported, match=said):
        torch.compile(f, fullgraph=True, backend="aot_eager")(r)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_transforms_of_hybrid_energies_in_graphs_are_right_or_loud(fullgraph: bool) -> None:
    r, q, h = system()
    given = listed(r, h)

    def e(r: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return mt.ewald_summation(r, q, h, ALPHA, hybrid_forces=True, **given).sum()

    def by_positions(r: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(e)(r, q)

    def mixed(r: torch.Tensor) -> torch.Tensor:
        return jacrev(lambda r: torch.func.grad(e, 1)(r, q))(r)

    torch.testing.assert_close(
        torch.compile(by_positions, fullgraph=fullgraph, backend="aot_eager")(r), by_positions(r), rtol=0, atol=0
    )
    compiled = torch.compile(mixed, fullgraph=fullgraph, backend="aot_eager")
    # What the compiler refuses of the mixed derivatives: all of it in 2.7 to 2.13, one graph of it in 2.14 and 2.15.
    old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)
    if fullgraph or old:
        error = torch._dynamo.exc.TorchRuntimeError if old else torch._dynamo.exc.Unsupported
        with pytest.raises(error):
            compiled(r)
    else:
        torch.testing.assert_close(compiled(r), mixed(r), rtol=1e-12, atol=1e-12)


def test_calls_of_any_order_share_nothing_of_a_transform() -> None:
    """What a first call under a transform leaves behind is good for the next."""
    r, q, h = system(5)
    alpha = 1.234567

    def e(r: torch.Tensor) -> torch.Tensor:
        return mt.ewald_reciprocal_space(r, q, h, alpha, 4.321).sum()

    inside = torch.func.grad(e)(r)
    (x,) = leaves(r)
    torch.testing.assert_close(torch.autograd.grad(e(x), x)[0], inside)
