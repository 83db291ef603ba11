#!/usr/bin/env python3
"""Writes latent_references.json: what the package `les` gives for charges in periodic and in open systems.

    pip install torch numpy; git clone https://github.com/ChengUCB/les; pip install ./les
    python tests/data/make_latent_references.py

In float64: energies with and without the interaction of charges with themselves, forces, derivatives by charges, and
the derivatives by positions and charges of Σ f·w, where f are the forces and w is a direction, which a loss on forces
takes. For open systems `les` has no second derivatives (NaN, from the length of each atom's vector to itself): these
are of a plain sum over i < j, whose energy has to be the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from les.module import Ewald

CELLS = {
    "cubic": [[7.3, 0.0, 0.0], [0.0, 7.3, 0.0], [0.0, 0.0, 7.3]],
    "triclinic": [[6.9, 0.0, 0.0], [2.1, 7.7, 0.0], [-1.3, 0.9, 8.3]],
    "open": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
}
SETTINGS = {"cubic": (1.0, 2.0), "triclinic": (0.8, 1.5), "open": (1.0, 2.0)}
ATOMS = 9


def reference(name: str, channels: int, remove: bool) -> dict[str, Any]:
    rng = np.random.default_rng(len(name) + channels)
    sigma, dl = SETTINGS[name]
    r, q, w = rng.uniform(-4.0, 8.0, (ATOMS, 3)), rng.normal(size=(ATOMS, channels)), rng.normal(size=(ATOMS, 3))
    positions, charges, direction = torch.tensor(r), torch.tensor(q), torch.tensor(w)
    positions.requires_grad_(), charges.requires_grad_()
    cell = torch.tensor(CELLS[name], dtype=torch.float64)[None]
    energy = Ewald(dl=dl, sigma=sigma, remove_self_interaction=remove)(charges, positions, cell)[0].sum()
    by_positions, by_charges = torch.autograd.grad(energy, (positions, charges))
    if name == "open":
        i, j = torch.triu_indices(ATOMS, ATOMS, 1)
        distance = (positions[i] - positions[j]).norm(dim=1)
        pairs = torch.erf(distance / (2**0.5 * sigma)) / distance
        own = 0.0 if remove else (charges**2).sum() / (sigma * (2.0 * torch.pi) ** 0.5)
        plain = 90.4756 / (2.0 * torch.pi) * ((charges[i] * charges[j]).sum(1) @ pairs + own)
        assert abs(plain.item() - energy.item()) < 1e-12 * abs(energy.item())
    else:
        plain = Ewald(dl=dl, sigma=sigma, remove_self_interaction=remove)(charges, positions, cell)[0].sum()
    forces = -torch.autograd.grad(plain, positions, create_graph=True)[0]
    second = torch.autograd.grad((forces * direction).sum(), (positions, charges))
    arrays = {"forces": -by_positions, "charge_gradients": by_charges}
    arrays |= {"second_by_positions": second[0], "second_by_charges": second[1]}
    given = {"sigma": sigma, "dl": dl, "remove_self_interaction": remove, "cell": CELLS[name]}
    given |= {"positions": r.tolist(), "charges": q.tolist(), "direction": w.tolist(), "energy": energy.item()}
    return given | {name: x.detach().tolist() for name, x in arrays.items()}


def main() -> None:
    cases = {
        f"{name}, {channels} channel{'s' * (channels > 1)}, {'without' if remove else 'with'} self": reference(
            name, channels, remove
        )
        for name in CELLS
        for channels in (1, 3)
        for remove in (True, False)
    }
    file = Path(__file__).parent / "latent_references.json"
    file.write_text(json.dumps(cases, indent=0) + "\n")
    print(f"{len(cases)} cases in {file}")


if __name__ == "__main__":
    main()
