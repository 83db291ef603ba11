"""Types of results, as a type checker of the caller sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

from conftest import ROOT


def checked(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str], str]:
    """The types that a program reveals, its lines with errors, and all that was said."""
    monkeypatch.setenv("MYPYPATH", str(ROOT / "python"))
    file = folder / "caller.py"
    file.write_text(source, encoding="utf-8")
    said, failure, _ = api.run([str(file), "--cache-dir", str(folder / "cache"), "--no-error-summary"])
    assert not failure
    types = [line.split("Revealed type is ")[1].strip('"') for line in said.splitlines() if "Revealed" in line]
    lines, own = source.splitlines(), [line for line in said.splitlines() if "caller.py" in line]
    return types, [lines[int(line.split(":")[1]) - 1] for line in own if ": error: " in line], said


PROGRAM = """
import numpy as np
import madelung.numpy as m

r, q, h = np.zeros((2, 3)), np.zeros(2), np.eye(3)
energies: np.ndarray = m.ewald_summation(r, q, h)
reveal_type(m.ewald_summation(r, q, h))
reveal_type(m.lennard_jones(r, q, h, h, 3.0, prefactor=2.0))
reveal_type(m.ewald_summation(r, q, h, compute_forces=True))
_, virial = m.born_mayer(r, q, h, h, h, h, h, 3.0, compute_virial=True)
wanted = bool(q.any())
reveal_type(m.ewald_real_space(r, q, h, 0.5, compute_charge_gradients=wanted))
m.ewald_summation(r, q)
m.ewald_summation(r, q, h, energy_reduction="pair")
"""


def test_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One array without flags, several with them; wrong calls are found."""
    types, errors, said = checked(PROGRAM, tmp_path, monkeypatch)
    assert [each.startswith("tuple") for each in types] == [False, False, True, True]
    assert all("ndarray" in each for each in types), said
    assert errors == PROGRAM.splitlines()[-2:], said


TENSORS = """
import jax.numpy as jnp
import numpy as np
import torch
import madelung.jax as mj
import madelung.torch as mt

r, x = torch.zeros(2, 3), jnp.zeros((2, 3))
reveal_type(mt.ewald_summation(r, r, r))
reveal_type(mt.segment_sum(r, r))
reveal_type(mj.ewald_summation(np.zeros((2, 3)), x, x))
mt.ewald_summation(np.zeros((2, 3)), r, r)
"""


def test_arrays_of_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are arrays of the namespace, and PyTorch's takes no array of NumPy."""
    types, errors, said = checked(TENSORS, tmp_path, monkeypatch)
    assert [each.rpartition(".")[2] for each in types] == ["Tensor", "Tensor", "Array"], said
    assert errors == TENSORS.splitlines()[-1:], said


KERNELS = """
from madelung.kernels import Array, Batch, Dim, Mat3, Out, Pairs, Real, Vec3, erfc, func, kernel, length

class Atom(Dim): ...
class System(Dim): ...
class Feature(Dim): ...

@func
def screened(r: Real, alpha: Real) -> Real:
    return erfc(alpha * r) / r

@kernel(fast=["positions"])
def k(i: Atom, positions: Array[Vec3, Atom], cell: Array[Mat3, System], alpha: Array[Real],
      f: Array[Real, Atom, Feature], atoms: Batch[Atom, System], pairs: Pairs[Atom], energy: Out[Real, Atom],
      total: Out[Real], out: Out[Real, Atom, Feature]) -> None:
    b = atoms.of(i)
    e = 0.0
    s = [0.0] * Feature
    for j, shift in pairs.row(i):
        r = length(positions[j] - positions[i] + shift @ cell[b])
        e += screened(r, 2 * alpha)
        for c in Feature:
            s[c] += f[j, c]
    for c in Feature:
        out[i, c] = s[c]
    energy[i] = 0.5 * e
    total += e

screened("near", 1.0)
"""


def test_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels whose dimensions are classes have types; a wrong argument of a function is found."""
    _, errors, said = checked(KERNELS, tmp_path, monkeypatch)
    assert errors == KERNELS.splitlines()[-1:], said


LAWS = """
from math import pi

import numpy as np
import madelung.numpy as m
from madelung.kernels import Real, erfc, exp, func, law, sqrt

@func
def short_range(r: Real, alpha: Real, kappa: Real) -> Real:
    return exp(-kappa * r) * erfc(alpha * r - kappa / (2 * alpha)) / r

@func
def long_range_k2(k2: Real, volume: Real, alpha: Real, kappa: Real) -> Real:
    return 4 * pi / (volume * (k2 + kappa**2)) * exp(-k2 / (4 * alpha**2))

@func
def self_term(alpha: Real, kappa: Real) -> Real:
    return 2 * alpha / sqrt(pi) - kappa

@func
def background(volume: Real, alpha: Real, kappa: Real) -> Real:
    return -long_range_k2(0.0, volume, alpha, kappa)

own = law("own", kappa=Real)
yukawa = own(short_range=short_range, long_range_k2=long_range_k2, self_term=self_term, background=background)
r, q, h = np.zeros((2, 3)), np.zeros(2), np.eye(3)
energies: np.ndarray = m.ewald_summation(r, q, h, 1.0, cutoff=3.0, k_cutoff=9.0, law=yukawa(kappa=0.8))
m.ewald_summation(r, q, h, 1.0, cutoff=3.0, k_cutoff=9.0, law=yukawa)
own(short_range=short_range, long_range_k2=long_range_k2, self_term=self_term)
"""


def test_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A law with its parameters is what sums take; a function that is missing is found."""
    _, errors, said = checked(LAWS, tmp_path, monkeypatch)
    assert errors == LAWS.splitlines()[-2:], said
