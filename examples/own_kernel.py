"""A potential of one's own: Morse pairs, written in Python, their parameters fitted to forces in PyTorch.

The energy is a kernel of ten lines. Forces are its gradient, and the gradient of a loss on forces is a second
derivative of it: neither is written down. Reference forces come from parameters that the fit has to find again.

    python examples/own_kernel.py

Lengths are in Å, energies in eV.
"""

from __future__ import annotations

import sys

import torch

from madelung.kernels import Array, Batch, Mat3, Out, Pairs, Real, Vec3, dims, exp, func, kernel, length
from madelung.torch import find_neighbors

Atom, System = dims("Atom System")

CUTOFF = 6.0
# Depth of the well, its width and its distance: of copper (Girifalco and Weizer, Phys. Rev. 114, 687 (1959)).
COPPER = torch.tensor([0.3429, 1.3588, 2.866], dtype=torch.float64)


@func
def taper(x: Real) -> Real:
    """1 at x = 0 and 0 at x = 1, with two derivatives that are zero at both."""
    return 1 - x**3 * (10 - 15 * x + 6 * x**2)


@kernel(fast=["positions"])
def morse(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    depth: Array[Real],
    steepness: Array[Real],
    minimum: Array[Real],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    b = atoms.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        r = length(positions[j] - positions[i] + shift @ cell[b])
        if r < cutoff:
            w = exp(-steepness * (r - minimum))
            e += depth * w * (w - 2) * taper(r / cutoff)
    energy[i] = e / 2


def crystal(edge: int, constant: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions (4 edge³, 3) of a rattled face-centred cubic crystal, and its cell (3, 3)."""
    basis = torch.tensor([[0.0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]], dtype=torch.float64)
    corners = torch.cartesian_prod(*[torch.arange(edge, dtype=torch.float64)] * 3)
    positions = constant * (corners[:, None] + basis).reshape(-1, 3)
    random = torch.Generator().manual_seed(seed)
    rattled = positions + 0.1 * torch.randn(positions.shape, generator=random, dtype=torch.float64)
    return rattled, edge * constant * torch.eye(3, dtype=torch.float64)


def main() -> int:
    """The fit; 0 if it finds the parameters."""
    positions, cell = crystal(edge=2, constant=3.615, seed=0)
    positions.requires_grad_()
    pairs = find_neighbors(positions.detach(), CUTOFF, cell)

    def forces(parameters: torch.Tensor) -> torch.Tensor:
        energy = morse(positions, cell, *parameters, cutoff=CUTOFF, pairs=pairs).sum()
        return -torch.autograd.grad(energy, positions, create_graph=True)[0]

    reference = forces(COPPER).detach()
    parameters = torch.tensor([0.5, 1.0, 2.5], dtype=torch.float64, requires_grad=True)
    # The square of an error that is to be small is far smaller than what the optimizer stops at by default.
    ends = {"tolerance_grad": 1e-14, "tolerance_change": 1e-20}
    optimizer = torch.optim.LBFGS([parameters], max_iter=200, line_search_fn="strong_wolfe", **ends)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = (forces(parameters) - reference).square().mean()
        value.backward()
        return value

    print(f"{len(positions)} atoms, forces of {reference.square().mean().sqrt():.3f} eV/Å")
    print(f"error of forces before: {loss().sqrt():.1e} eV/Å, depth, steepness, minimum: {parameters.tolist()}")
    optimizer.step(loss)
    error = loss().sqrt()
    print(f"                 after: {error:.1e} eV/Å, depth, steepness, minimum: {parameters.tolist()}")
    return int(error > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
