"""What the functions do for CUDA tensors, where there is no GPU.

Most of it is PyTorch's own work, and runs on the CPU as well: with a search in the place of the device's, and where a
call would read a device, this fails. Shapes and devices are those of fake CUDA tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from systems import leaves, system
from test_functions import charges_in_cells, same, tensors
from torch._subclasses.fake_tensor import FakeTensorMode

import madelung.numpy as mn
import madelung.torch as mt
from madelung import _arguments as check
from madelung._functions.lists import Chosen
from madelung.torch import _bound, _framework, _lists, _ops
from madelung.torch import _inputs as given

pytestmark = pytest.mark.host("it stands in for a device")

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CUTOFF, ALPHA = 3.0, 0.9


def _asks_a_driver() -> bool:
    """PyTorch 2.7 looks for a GPU when a fake CUDA tensor is indexed or copied."""
    try:
        with FakeTensorMode():
            torch.empty(2, 3, device="cuda:0")[1].clone()
            torch.empty(2).cuda()
    except RuntimeError:
        return True
    return False


FAKE = pytest.mark.cuda("this PyTorch needs a driver for fake CUDA tensors" if _asks_a_driver() else None)


@pytest.fixture
def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls with tensors of the CPU go the way of those with CUDA tensors."""
    monkeypatch.setattr(_framework, "Eager", _framework.Device)
    monkeypatch.setattr(_bound, "STRAIGHT", {})


def listed(*arguments: Any, **options: Any) -> tuple[torch.Tensor, ...]:
    """The list of the device, by the search of the CPU: what is not given is as in the function."""
    names = ("positions", "cutoff", "cell", "pbc", "batch_idx", "batch_ptr")
    given = {**dict.fromkeys(names), **dict(zip(names, arguments))}
    given |= {name: options.pop(name) for name in names if name in options}
    wish = {"half_fill": False, "format": "coo", "return_distances": False, "return_vectors": False}
    others = dict.fromkeys(("method", "max_neighbors", "capacity", "fill_value"))
    options = check.list_options(**{**wish, **others, **options})
    return _framework.Device.neighbor_list(*(given[name] for name in names), Chosen(), options)


@pytest.mark.parametrize("capacity", [None, 4000])
@pytest.mark.parametrize("form", ["coo", "csr", "matrix"])
@pytest.mark.parametrize("half", [False, True], ids=["full", "half"])
@pytest.mark.parametrize("how", ["one", "batch_idx", "batch_ptr", "both", "open", "slab"])
def test_lists(how: str, half: bool, form: str, capacity: int | None) -> None:
    """Those of the CPU in every form, with what is behind the last pair where there is room for more."""
    batched = how.startswith("b")
    r, _, h, idx = charges_in_cells(3 if batched else 1)
    # The kernel of the CPU measures no list with room for more.
    measured = capacity is None
    options: dict[str, Any] = {"half_fill": half, "return_distances": measured, "return_vectors": measured}
    if how in ("batch_idx", "both"):
        options["batch_idx"] = idx
    if how in ("batch_ptr", "both"):
        options["batch_ptr"] = np.searchsorted(idx, np.arange(4)).astype(np.int32)
    if how == "slab":
        options["pbc"] = np.array([True, True, False])
    cell = None if how == "open" else h if batched else h[0]
    expected = mn.neighbor_list(r, CUTOFF, cell, format=form, **options)
    of_torch = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    x = (torch.from_numpy(r), CUTOFF, None if cell is None else torch.from_numpy(cell))
    width = None
    if capacity is not None and form == "matrix":
        width = expected[0].shape[1] + 2
    got = listed(*x, format=form, capacity=capacity, max_neighbors=width, **of_torch)
    if capacity is None:
        return same(got, expected)
    if form == "matrix":
        assert width is not None
        matrix, counts, shifts, *others = got
        assert matrix.shape == (len(r), width) and (matrix[:, -2:] == len(r)).all()
        assert not any(x[:, -2:].any() for x in (shifts, *others))
        return same((matrix[:, :-2], counts, *(x[:, :-2] for x in (shifts, *others))), expected)
    if form == "coo":
        pairs, ptr, *others = got
        assert pairs.shape == (2, capacity) and (pairs[:, ptr[-1] :] == len(r)).all()
        cut = (pairs[:, : ptr[-1]], ptr)
    else:
        ptr, columns, *others = got
        cut = (ptr, columns[: ptr[-1]])
    assert not any(x[ptr[-1] :].any() for x in others)
    return same((*cut, *(x[: ptr[-1]] for x in others)), expected)


def test_a_list_that_does_not_fit_is_no_list() -> None:
    r, _, h, _ = tensors(charges_in_cells(1))
    pairs, ptr, _ = listed(r, CUTOFF, h[0])
    assert int(ptr[-1]) == pairs.shape[1] > 10
    pairs, ptr, _ = listed(r, CUTOFF, h[0], capacity=10)
    assert (pairs == len(r)).all() and int(ptr[-1]) > 10
    for more in ({"capacity": 10, "max_neighbors": 100}, {"capacity": 4000, "max_neighbors": 2}):
        for fill, bad in ((None, -1), (-1, len(r) + 1)):
            matrix, counts, _ = listed(r, CUTOFF, h[0], format="matrix", fill_value=fill, **more)
            assert (matrix == bad).all() and torch.equal(counts, ptr.diff())
            of_matrix = (matrix, matrix.new_zeros(*matrix.shape, 3), fill, False)
            full = _framework.Device.converted(r, None, None, None, *of_matrix)
            with pytest.raises(RuntimeError, match="`pairs: neighbor_(ptr|list)`: expected"):
                _ops.pair_vectors(r, h, torch.zeros(len(r), dtype=torch.int32), *full, 0)


def test_derivatives_of_what_pairs_measure() -> None:
    r, _, h, idx = tensors(charges_in_cells(3))
    at, cell = leaves(r, h)

    def f(r: torch.Tensor, h: torch.Tensor) -> Any:
        options = {"batch_idx": idx, "format": "matrix", "return_distances": True, "return_vectors": True}
        return listed(r, CUTOFF, h, **options)[3:]

    assert torch.autograd.gradcheck(f, (at, cell), atol=1e-6)


@pytest.mark.parametrize("width", [torch.int32, torch.int64])
@pytest.mark.parametrize("half", [False, True], ids=["full", "half"])
@pytest.mark.parametrize("form", ["coo", "no offsets", "padded", "matrix", "-1"])
def test_every_form_becomes_a_full_list(form: str, half: bool, width: torch.dtype) -> None:
    """With the entries of a row in any order."""
    r, _, h, idx = charges_in_cells(3)
    atoms = len(r)
    matrix = form in ("matrix", "-1")
    fill = -1 if form == "-1" else None
    options = {"half_fill": half, "batch_idx": idx, "format": "matrix" if matrix else "coo", "fill_value": fill}
    made = tensors(mn.neighbor_list(r, CUTOFF, h, **options))
    if matrix:
        given = [None, None, None, made[0], made[2], fill]
    else:
        given = [*made, None, None, None]
        if form == "no offsets":
            given[1] = None
        elif form == "padded":
            given[0] = torch.cat([made[0], made[0].new_full((2, 5), atoms)], 1)
            given[2] = torch.cat([made[2], made[2].new_zeros(5, 3)])
    given = [x.to(width) if isinstance(x, torch.Tensor) else x for x in given]
    ptr, columns, shifts = _framework.Device.converted(torch.from_numpy(r), *given, half)
    pairs, offsets, images = mn.neighbor_list(r, CUTOFF, h, batch_idx=idx)
    assert np.array_equal(ptr.numpy(), offsets)
    for i in range(atoms):
        row, want = slice(int(ptr[i]), int(ptr[i + 1])), slice(offsets[i], offsets[i + 1])
        found = torch.cat([columns[row, None], shifts[row]], 1).tolist()
        assert sorted(found) == np.column_stack([pairs[1], images])[want].tolist()


def test_forms_that_are_no_list() -> None:
    """What cannot be is left for the op to find: offsets that do not begin at 0, or an index out of range."""
    r, _, h, _ = tensors(charges_in_cells(1))
    pairs, ptr, shifts = mt.neighbor_list(r, CUTOFF, h[0], half_fill=True)
    atoms = len(r)

    def offsets(pairs: torch.Tensor, ptr: torch.Tensor | None) -> torch.Tensor:
        return _framework.Device.converted(r, pairs, ptr, shifts, None, None, None, True)[0]

    assert offsets(pairs, ptr)[0] == 0
    for row, column in ((atoms, 0), (atoms + 1, 0), (-1, 0), (0, atoms), (0, -1)):
        bad = pairs.clone()
        bad[:, 0] = torch.tensor([row, column])
        assert offsets(bad, None)[0] > 0, (row, column)
    moved = ptr.clone()
    moved[1] += 1
    assert offsets(pairs, moved)[0] > 0
    for wrong, message in (
        ({"neighbor_list": pairs.double()}, "`neighbor_list`: expected integers, got float64"),
        ({"neighbor_list": pairs[:1]}, r"`neighbor_list`: expected shape \(2, P\), got \(1, "),
        ({"neighbor_list": pairs.numpy()}, "`neighbor_list`: expected a tensor"),
        ({"neighbor_shifts": None}, "`neighbor_shifts`: expected the image of each"),
        ({"neighbor_shifts": shifts[1:]}, "`neighbor_shifts`: expected shape"),
    ):
        lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts, **wrong}
        with pytest.raises((TypeError, ValueError), match=message):
            _framework.Device.converted(r, *lists.values(), None, None, None, False)


@pytest.mark.usefixtures("as_on_a_device")
@pytest.mark.parametrize("reduction", ["atom", "system"])
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_functions_that_are_given_everything_read_nothing(
    batched: bool, reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    r, q, h, idx = charges_in_cells(3 if batched else 1)
    h = h if batched else h[0]
    options = {"energy_reduction": reduction, **EVERYTHING}
    x = leaves(*tensors((r, q, h)))
    of = {"batch_idx": torch.from_numpy(idx)} if batched else {}
    pairs, ptr, shifts = listed(x[0], CUTOFF, x[2], capacity=4000, **of)
    assert pairs.shape == (2, 4000)
    systems = 3 if batched else 1
    indices, waves = given.waves(x[2], [5.0] * systems, systems)
    expected = mn.ewald_summation(
        r, q, h, ALPHA, cutoff=CUTOFF, k_cutoff=5.0, accuracy=None, **options, **({"batch_idx": idx} if batched else {})
    )

    def read(name: str, x: Any, positions: Any = None) -> Any:
        if x is not None:
            pytest.fail(f"`{name}` was read")

    monkeypatch.setattr(given, "view", read)
    # The kernel of the CPU takes no list with room for more.
    lists = {"neighbor_list": pairs[:, : ptr[-1]], "neighbor_ptr": ptr, "neighbor_shifts": shifts[: ptr[-1]]}
    got = mt.ewald_summation(
        *x, ALPHA, cutoff=CUTOFF, miller_indices=indices, miller_batch_idx=waves, **lists, **of, **options
    )
    same(got, expected)
    got[1].square().sum().backward()
    assert all(t.grad is not None for t in x)


@pytest.mark.usefixtures("as_on_a_device")
def test_lists_that_were_searched_there_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """And while they stay as they are; others never are, for what a call finds on a device it does not know."""
    monkeypatch.setattr(_lists, "MANY", 1)
    r, q, h, _ = tensors(charges_in_cells(1))
    pairs, ptr, shifts = listed(r, CUTOFF, h[0])
    op = _ops.OPS["ewald_real_space"]
    lists = _lists.Lists(op)

    def kind(pairs: torch.Tensor) -> int:
        ptr_of, columns, shifts_of, _ = _framework.Device.coo(pairs, ptr, shifts, r)
        flat = (r, q, h, q, torch.empty(0), ptr, 1.0, ptr_of, columns, shifts_of, 0, CUTOFF)
        marked, _ = lists.mark(flat)
        return marked[10]

    assert kind(pairs) == _lists.CHECKED
    assert kind(pairs.clone()) == 0
    pairs[0, 0] = 0
    assert kind(pairs) == 0
    before = len(_lists._columns)
    del pairs
    assert len(_lists._columns) == before - 1
    pairs, ptr, shifts = listed(r, CUTOFF, h[0], half_fill=True)
    assert kind(pairs) == 0


def test_values_are_read_once() -> None:
    x = torch.arange(3.0)
    values = given._values("cell", x)
    assert given._values("cell", x) is values
    x += 1
    again = given._values("cell", x)
    assert again is not values and np.array_equal(again, x.numpy())
    before = len(given._read)
    del x
    assert len(given._read) == before - 1
    with torch.inference_mode():
        x = torch.arange(3.0)
        assert given._values("cell", x) is not given._values("cell", x)


@pytest.mark.usefixtures("as_on_a_device")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": None}, "alpha, the Miller indices"),
        (
            {"miller_indices": None, "miller_batch_idx": None, "k_cutoff": 5.0, "accuracy": None},
            "`miller_indices`: expected what",
        ),
        ({"neighbor_list": None, "neighbor_ptr": None, "neighbor_shifts": None}, "`neighbor_list`: expected what"),
    ],
)
def test_what_a_captured_graph_has_to_be_given(
    wrong: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    r, q, h, _ = tensors(charges_in_cells(1))
    pairs, ptr, shifts = listed(r, CUTOFF, h[0])
    indices, waves = given.waves(h[0], [5.0], 1)
    options = {"alpha": ALPHA, "cutoff": CUTOFF, "miller_indices": indices, "miller_batch_idx": waves}
    options |= {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
    given._read.clear()
    monkeypatch.setattr(given, "is_captured", lambda _: True)
    # There is no NumPy array on the memory of a device.
    monkeypatch.setattr(given, "view", lambda name, x, positions=None: None if x is None else given._values(name, x))
    same(
        mt.ewald_summation(r, q, h[0], **options),
        mn.ewald_summation(*map(torch.Tensor.numpy, (r, q, h[0])), ALPHA, cutoff=CUTOFF, k_cutoff=5.0, accuracy=None),
    )
    with pytest.raises(ValueError, match=rf"{message}.*while a CUDA graph is captured"):
        mt.ewald_summation(r, q, h[0], **{**options, **wrong})
    with pytest.raises(ValueError, match="`capacity`: expected how many pairs there is room for while a CUDA graph"):
        listed(r, CUTOFF, h[0])
    with pytest.raises(ValueError, match="`alpha`: expected a number or a tensor while a CUDA graph .* got 2 numbers"):
        _framework.Device.constants((ALPHA, 2 * ALPHA), r)


@FAKE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_shapes_and_devices(batched: bool, dtype: torch.dtype) -> None:
    """Of fake CUDA tensors, in eager calls: everything is where the positions are."""
    atoms, systems, room, waves = 7, 2, 50, 20
    with FakeTensorMode():

        def on(*shape: int, of: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.empty(shape, dtype=of, device="cuda:0")

        x = on(atoms, 3, of=dtype), on(atoms, of=dtype), on(*((systems,) if batched else ()), 3, 3, of=dtype)
        idx = {"batch_idx": on(atoms)} if batched else {}
        forms = {
            "coo": ((2, room), (atoms + 1,), (room, 3), (room,), (room, 3)),
            "csr": ((atoms + 1,), (room,), (room, 3), (room,), (room, 3)),
            "matrix": ((atoms, 9), (atoms,), (atoms, 9, 3), (atoms, 9), (atoms, 9, 3)),
        }
        for form, shapes in forms.items():
            found = mt.neighbor_list(
                *(x[0], CUTOFF, x[2]),
                **idx,
                format=form,
                capacity=room,
                max_neighbors=9 if form == "matrix" else None,
                return_distances=True,
                return_vectors=True,
            )
            assert [tuple(t.shape) for t in found] == list(shapes)
            assert [t.dtype for t in found] == [*[torch.int32] * 3, dtype, dtype]
            assert all(t.device == x[0].device for t in found)
        lists = dict(
            zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), (on(2, room), on(atoms + 1), on(room, 3)))
        )
        matrix = {"neighbor_matrix": on(atoms, 9), "neighbor_matrix_shifts": on(atoms, 9, 3)}
        half = {"neighbor_list": on(2, room), "neighbor_shifts": on(room, 3), "half_fill": True}
        miller = {"miller_indices": on(waves, 3), "miller_batch_idx": on(waves)}
        for reduction in ("atom", "system"):
            options = {"energy_reduction": reduction, **EVERYTHING, **idx}
            rows = atoms if reduction == "atom" else systems if batched else 1
            shapes = [(rows,), (atoms, 3), (atoms,), (systems, 3, 3) if batched else (3, 3)]
            for alpha in (ALPHA, on(systems if batched else 1, of=dtype)):
                results = [
                    mt.ewald_real_space(*x, alpha, cutoff=CUTOFF, **form, **options) for form in (lists, matrix, half)
                ]
                results += [mt.ewald_reciprocal_space(*x, alpha, **miller, **options)]
                results += [mt.ewald_summation(*x, alpha, cutoff=CUTOFF, **lists, **miller, **options)]
                for found in results:
                    assert [tuple(t.shape) for t in found] == shapes
                    assert all(t.device == x[0].device and t.dtype == dtype for t in found)


class Energies(torch.nn.Module):
    """A call that is given everything."""

    def forward(self, r: torch.Tensor, q: torch.Tensor, h: torch.Tensor, *lists: torch.Tensor) -> Any:
        names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "miller_indices", "miller_batch_idx")
        given = dict(zip(names, lists))
        return mt.ewald_summation(r, q, h, ALPHA, cutoff=CUTOFF, energy_reduction="system", **given, **EVERYTHING)


@FAKE
@pytest.mark.parametrize("strict", [False, True])
def test_exported_graphs_stay_on_the_device(strict: bool) -> None:
    with FakeTensorMode():
        shapes = {(7, 3): True, (7,): True, (3, 3): True, (2, 50): False, (8,): False, (50, 3): False, (20, 3): False}
        x = [
            torch.empty(s, dtype=torch.float64 if real else torch.int32, device="cuda:0") for s, real in shapes.items()
        ]
        x.append(torch.empty(20, dtype=torch.int32, device="cuda:0"))
        graph = torch.export.export(Energies(), tuple(x), strict=strict).graph
    calls = [n for n in graph.nodes if "madelung" in str(n.target)]
    made = [n.meta["val"] for n in graph.nodes if n.op == "call_function" and isinstance(n.meta["val"], torch.Tensor)]
    assert len(calls) == 2 and made
    assert all(t.device == x[0].device for t in made)


@FAKE
def test_values_of_fake_tensors_are_asked_for_clearly() -> None:
    r, q, h = system()
    with FakeTensorMode() as mode:
        x = [mode.from_tensor(t).cuda() for t in (r, q, h)]
        for call in (
            lambda: mt.ewald_summation(*x),
            lambda: mt.estimate_ewald_parameters(*x),
            lambda: mt.generate_miller_indices(x[2], 5.0),
        ):
            with pytest.raises(
                ValueError, match="expected a tensor with values: what depends on them.*a traced tensor"
            ):
                call()


@pytest.mark.parametrize("name", ["charges", "cell", "batch_idx", "alpha", "neighbor_list", "miller_indices"])
def test_one_device_for_all(name: str) -> None:
    """Whichever of them lies elsewhere is named."""
    with FakeTensorMode():

        def on(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        real, integer = torch.float64, torch.int32
        kinds = {
            "positions": ((4, 3), real),
            "charges": ((4,), real),
            "cell": ((1, 3, 3), real),
            "alpha": ((1,), real),
            "batch_idx": ((4,), integer),
            "neighbor_list": ((2, 6), integer),
            "neighbor_ptr": ((5,), integer),
            "neighbor_shifts": ((6, 3), integer),
            "miller_indices": ((5, 3), integer),
            "miller_batch_idx": ((5,), integer),
        }
        call = {k: on(*kind, "cpu" if k == name else "cuda:0") for k, kind in kinds.items()}
        with pytest.raises(ValueError, match=rf"`{name}`: expected a tensor on cuda:0.*got one on cpu"):
            mt.ewald_summation(**call, cutoff=CUTOFF)
