"""Tensors that kernels go on with: arguments and results of calls, which change nothing, and outputs of launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import required
from in_out_kernels import arguments, axpy, expected, go_on
from madelung.kernels import launch

torch = required("torch")
pytestmark = pytest.mark.host("kernels of the host")

both = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(np.array(x)) for name, x in arrays.items()}


def assert_equal(found: dict[str, Any], wanted: dict[str, Any], like: dict[str, Any]) -> None:
    for name, x in wanted.items():
        np.testing.assert_array_equal(found[name], x, name)
        assert found[name].numpy().dtype == like.get(name, x).dtype, name


@both
@pytest.mark.parametrize("rows", [6, 0])
def test_calls(dtype: Any, rows: int) -> None:
    inputs, held = arguments(dtype, rows)
    wanted, given = expected(inputs, held), tensors(inputs | held)
    for _ in range(2):
        assert_equal(dict(zip(wanted, go_on(**given))), wanted, held)
    assert_equal(given, held, held)


def test_graphs() -> None:
    """The op is functional: it has no alias in its schema, and graphs hold it once."""
    inputs, held = arguments()
    wanted, given = expected(inputs, held), tensors(inputs | held)
    compiled = torch.compile(lambda **x: go_on(**x), fullgraph=True, backend="aot_eager")
    assert_equal(dict(zip(wanted, compiled(**given))), wanted, held)
    assert_equal(given, held, held)
    x, y = given["x"], given["y"]
    op = axpy._op._calls.of("torch")[1]
    overload = getattr(getattr(torch.ops, op.namespace), op.name).default
    torch.library.opcheck(
        overload, (2.0, x, y), test_utils=["test_schema", "test_faketensor", "test_aot_dispatch_static"]
    )
    assert "!" not in str(overload._schema)


def test_vmap() -> None:
    """Each call has rows of its own, though kernels compute the numbers of some."""
    inputs, held = arguments()
    others = {name: x[::-1].copy() if x.ndim else x + 1 for name, x in (inputs | held).items()}
    stacked = {name: torch.from_numpy(np.stack([x, others[name]])) for name, x in (inputs | held).items()}
    found = torch.func.vmap(lambda x: go_on(**x))(stacked)
    for k, given in enumerate((inputs | held, others)):
        wanted = expected({name: given[name] for name in inputs}, {name: given[name] for name in held})
        assert_equal(dict(zip(wanted, [x[k] for x in found])), wanted, held)


@both
@pytest.mark.parametrize("rows", [6, 0])
def test_launch(dtype: Any, rows: int) -> None:
    inputs, held = arguments(dtype, rows)
    wanted = expected(inputs, held)
    arrays = tensors(held | {"new": np.full(3, 99, np.int32)})
    launch(go_on, tensors(inputs), arrays)
    assert_equal(arrays, wanted, held)
    around = torch.full((rows, 2), -7.0, dtype=arrays["y"].dtype)
    around[:, 1] = torch.from_numpy(held["y"])
    launch(axpy, {"a": 0.5, "x": torch.from_numpy(inputs["x"])}, {"y": around[:, 1]})
    np.testing.assert_array_equal(around[:, 1], wanted["y"])
    assert (around[:, 0] == -7).all()


def test_refused() -> None:
    inputs, held = arguments()
    x, y = torch.from_numpy(inputs["x"]), torch.from_numpy(held["y"])
    with pytest.raises(ValueError, match="`y`: expected its array under `outputs` alone"):
        launch(axpy, {"a": 0.5, "x": x, "y": y}, {"y": y})
    with pytest.raises(ValueError, match="`y`: expected memory of its own, got that of `x`"):
        launch(axpy, {"a": 0.5, "x": y}, {"y": y})
    with pytest.raises(ValueError, match="`y`: expected a tensor without gradient, got one that requires it"):
        launch(axpy, {"a": 0.5, "x": x}, {"y": y.clone().requires_grad_()})
    for of_x, of_y in ((True, False), (False, True)):
        given = x.clone().requires_grad_(of_x), y.clone().requires_grad_(of_y)
        with pytest.raises(Exception, match="no form for Gradient: it is not differentiated"):
            axpy(0.5, *given).sum().backward()
