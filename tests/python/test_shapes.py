"""The ops that stand for all ops in the tests of bridges."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest

from madelung.numpy._ops import OPS
from shapes import EVERY, FEW, covering, traits

SMOOTH = {name: op for name, op in OPS.items() if op.smooth}


def pairs(op: Any) -> set[frozenset[Any]]:
    return {frozenset(pair) for pair in combinations(traits(op), 2)}


@pytest.mark.parametrize("name", SMOOTH)
def test_ops_that_stand_for_an_op(name: str, monkeypatch: pytest.MonkeyPatch, record_property: Any) -> None:
    """Every pair of traits of the op is one of theirs; the report of the run (`--junitxml`) names them."""
    for variable in (EVERY, FEW):
        monkeypatch.delenv(variable, raising=False)
    missing = pairs(SMOOTH[name])
    standing = []
    for other, op in covering(SMOOTH).items():
        if missing & pairs(op):
            standing.append(other)
            missing -= pairs(op)
    record_property("ops", " ".join(standing))
    assert not missing
    assert traits(SMOOTH[name]) <= set().union(*(traits(op) for op in covering(SMOOTH, together=1).values()))


def test_an_op_of_a_new_shape_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a list of names: by a trait that no other op has, or by two that no other has together."""
    for variable in (EVERY, FEW):
        monkeypatch.delenv(variable, raising=False)
    like, chosen = SMOOTH["ewald_real_space"], covering(SMOOTH)
    assert len(chosen) < len(SMOOTH) / 3 and len(covering(SMOOTH, together=1)) <= len(chosen) / 2

    def with_(*args: dict[str, Any]) -> Any:
        fields = ("outputs", "stackable", "members", "saves")
        return SimpleNamespace(args=[*like.args, *args], **{name: getattr(like, name) for name in fields})

    feature = {"name": "x", "kind": "ints", "shape": [{"dim": "Feature"}, {"dim": "Feature"}]}
    for new in (with_({"name": "x", "kind": "tree"}), with_(feature)):
        assert "new" in covering({**SMOOTH, "new": new})
    assert "new" not in covering({**SMOOTH, "new": with_()})


def test_every_op_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EVERY, "1")
    assert covering(SMOOTH) == covering(SMOOTH, together=1) == SMOOTH


def test_fewer_ops_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EVERY, raising=False)
    monkeypatch.setenv(FEW, "1")
    assert list(covering(SMOOTH)) == list(covering(SMOOTH, together=1))
