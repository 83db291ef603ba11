"""Public functions of JAX: written by `tools/functions.py`."""

from jax import Array
from jax.typing import ArrayLike

from madelung._api import Functions
from madelung._functions.bound import through
from madelung.jax._framework import Jax

bound: Functions[ArrayLike, Array] = Functions("jax", through("jax", Jax))

__all__ = [
    "born_mayer",
    "buckingham",
    "cosine_angles",
    "coulomb",
    "dispersion_coefficients",
    "dsf",
    "electrostatic_potential",
    "estimate_ewald_parameters",
    "estimate_pme_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "find_neighbors",
    "gaussian_correction",
    "generate_miller_indices",
    "harmonic_angles",
    "harmonic_bonds",
    "harmonic_impropers",
    "knn",
    "knn_aggregate",
    "latent_ewald",
    "latent_ewald_lists",
    "lennard_jones",
    "lennard_jones_pairs",
    "mie",
    "morse",
    "morse_bonds",
    "needs_rebuild",
    "neighbor_list",
    "particle_mesh_ewald",
    "periodic_dihedrals",
    "pme_reciprocal_space",
    "qeq",
    "radius",
    "radius_aggregate",
    "ryckaert_bellemans",
    "segment_dot",
    "segment_max",
    "segment_mean",
    "segment_softmax",
    "segment_sum",
    "slab_correction",
    "soft_core",
    "spatial_order",
    "tang_toennies",
    "uniform_field",
    "yukawa",
    "zbl",
]

born_mayer = bound.born_mayer
buckingham = bound.buckingham
cosine_angles = bound.cosine_angles
coulomb = bound.coulomb
dispersion_coefficients = bound.dispersion_coefficients
dsf = bound.dsf
electrostatic_potential = bound.electrostatic_potential
estimate_ewald_parameters = bound.estimate_ewald_parameters
estimate_pme_parameters = bound.estimate_pme_parameters
ewald_real_space = bound.ewald_real_space
ewald_reciprocal_space = bound.ewald_reciprocal_space
ewald_summation = bound.ewald_summation
find_neighbors = bound.find_neighbors
gaussian_correction = bound.gaussian_correction
generate_miller_indices = bound.generate_miller_indices
harmonic_angles = bound.harmonic_angles
harmonic_bonds = bound.harmonic_bonds
harmonic_impropers = bound.harmonic_impropers
knn = bound.knn
knn_aggregate = bound.knn_aggregate
latent_ewald = bound.latent_ewald
latent_ewald_lists = bound.latent_ewald_lists
lennard_jones = bound.lennard_jones
lennard_jones_pairs = bound.lennard_jones_pairs
mie = bound.mie
morse = bound.morse
morse_bonds = bound.morse_bonds
needs_rebuild = bound.needs_rebuild
neighbor_list = bound.neighbor_list
particle_mesh_ewald = bound.particle_mesh_ewald
periodic_dihedrals = bound.periodic_dihedrals
pme_reciprocal_space = bound.pme_reciprocal_space
qeq = bound.qeq
radius = bound.radius
radius_aggregate = bound.radius_aggregate
ryckaert_bellemans = bound.ryckaert_bellemans
segment_dot = bound.segment_dot
segment_max = bound.segment_max
segment_mean = bound.segment_mean
segment_softmax = bound.segment_softmax
segment_sum = bound.segment_sum
slab_correction = bound.slab_correction
soft_core = bound.soft_core
spatial_order = bound.spatial_order
tang_toennies = bound.tang_toennies
uniform_field = bound.uniform_field
yukawa = bound.yukawa
zbl = bound.zbl
