"""The compiled part. Its functions take what `madelung._arguments` has checked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from madelung._arguments import Charges, Groups, Neighbors, Settings, Wanted, Wish

def version() -> str: ...
def isa() -> str: ...
def threads() -> int: ...
def registry_json() -> str: ...
def cuda_sources() -> list[dict[str, Any]]: ...
def torch_init(path: str) -> str: ...
def jax_init() -> str: ...
def jax_handlers() -> list[tuple[str, int, int, str]]: ...
def neighbor_list(
    positions: npt.NDArray[np.floating],
    cutoff: float,
    cell: npt.NDArray[np.float64] | None,
    pbc: Sequence[Sequence[bool]] | None,
    groups: Groups,
    wish: Wish,
) -> tuple[npt.NDArray, ...]: ...
def ewald_real_space(
    charges: Charges,
    alpha: Sequence[float],
    cutoff: float,
    neighbors: Neighbors | None,
    wanted: Wanted,
) -> tuple[npt.NDArray[np.floating], ...]: ...
def ewald_reciprocal_space(
    charges: Charges,
    alpha: Sequence[float],
    k_cutoff: Sequence[float],
    wanted: Wanted,
) -> tuple[npt.NDArray[np.floating], ...]: ...
def ewald_summation(
    charges: Charges,
    settings: Settings,
    neighbors: Neighbors | None,
    wanted: Wanted,
) -> tuple[npt.NDArray[np.floating], ...]: ...
def ewald_parameters(charges: Charges, settings: Settings) -> list[tuple[float, float, float, float]]: ...
def full_list(
    neighbors: Neighbors, atoms: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
def miller_indices(
    cells: npt.NDArray[np.float64], k_cutoff: Sequence[float]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
