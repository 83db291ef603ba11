"""Parameters that public functions share, each with its text."""

from __future__ import annotations

from madelung._functions.declare import Group, Parameter, text

POSITIONS = Parameter("positions", "reals", text("(N, 3), float32 or float64."))
CHARGES = Parameter("charges", "reals", text("(N,), of the positions' dtype, as all real arrays."))
CELL = Parameter(
    "cell",
    "reals",
    text(
        "(3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness.",
        cuda="With `batch_idx`, a cell (3, 3) makes the call wait.",
    ),
)
BATCH_IDX = Parameter(
    "batch_idx",
    "integers",
    text(
        "(N,), the system of each atom, sorted. None: one system.",
        jax="Under `jit` with a cell for each system.",
    ),
    None,
    ("N",),
)
ALPHA = Parameter(
    "alpha",
    "per_system",
    text(
        "splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the error "
        "that the cutoffs leave."
    ),
)
K_CUTOFF = Parameter(
    "k_cutoff",
    "sizes",
    text(
        "radius of the reciprocal sum, in radians per L, one for all systems or (B,).",
        cuda="The cell is then read, for which the call waits.",
    ),
    None,
)
CUTOFF = Parameter(
    "cutoff",
    "positive",
    text(
        "radius of the real-space sum, in L. May be left out where a list is given: then all its pairs count.",
        jax="A Python number.",
    ),
    None,
)
ACCURACY = Parameter(
    "accuracy",
    "positive",
    text(
        "target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to below 1. "
        "Parameters that are None are chosen for it, and given ones that cannot meet it are an error. None: given ones "
        "are taken as they are, and others are chosen for 1e-6 (1e-5 in float32)."
    ),
    None,
)
PBC = Parameter(
    "pbc", "axes", text("(3,) or (B, 3) of bool; must be True everywhere.", cuda="An array of NumPy."), None
)

_MATRIX = text(
    "a list of pairs as a matrix.",
    jax="Not under `jit`.",
    cuda="It is read, and made a list on the host, as is a list without offsets.",
)
LISTS = Group(
    "lists",
    (
        Parameter(
            "neighbors",
            "neighbors",
            text(
                "what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other "
                "atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a "
                "`NeighborList` since its `update`, where values can be read.",
                jax="Under `jit` one of another cell makes every result NaN.",
            ),
            None,
        ),
        Parameter(
            "neighbor_list",
            "integers",
            text(
                "the pairs as `neighbor_list` returns them. Pairs further than the cutoff do not count, so a list with "
                "a skin serves. Each entry counts: a pair that is there twice, or in a half list from both sides, "
                "counts twice, and one that is missing (a list for a smaller cutoff) not at all. Without a list the "
                "call builds one.",
                jax="A list that has overflown its capacity makes every result NaN.",
                cuda="For that it waits.",
            ),
            None,
            (2, "P"),
        ),
        Parameter("neighbor_ptr", "integers", default=None, shape=("N+1",)),
        Parameter("neighbor_shifts", "integers", default=None, shape=("P", 3)),
        Parameter("neighbor_matrix", "integers", _MATRIX, None, ("N", "M")),
        Parameter("neighbor_matrix_shifts", "integers", default=None, shape=("N", "M", 3)),
        Parameter("fill_value", "count", default=None),
        Parameter(
            "half_fill",
            "flag",
            text(
                "whether the list that is given has every pair once.",
                jax="Not under `jit`.",
                cuda="It is then made full on the host.",
            ),
            False,
        ),
    ),
)
MILLER = Group(
    "miller",
    (
        Parameter(
            "miller_indices",
            "integers",
            text(
                "in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system of each, (K,), sorted, as "
                "`generate_miller_indices` returns them; the latter may be left out for one system."
            ),
            None,
            ("K", 3),
        ),
        Parameter("miller_batch_idx", "integers", default=None, shape=("K",)),
    ),
)
OUTPUTS = Group(
    "outputs",
    (
        Parameter(
            "prefactor",
            "number",
            text("multiplies energies and every derivative of them.", jax="A Python number."),
            1.0,
        ),
        Parameter(
            "energy_reduction",
            "word",
            text('energies per "atom" (a pair\'s energy split half and half) or per "system".'),
            "atom",
            words=("atom", "system"),
        ),
        Parameter("compute_forces", "flag", text("whether these are returned too."), False),
        Parameter("compute_charge_gradients", "flag", default=False),
        Parameter(
            "compute_virial",
            "flag",
            text(
                "whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "
                '"atom" that of the energy of each atom, (N, 3, 3), which add up to it.'
            ),
            False,
            words=("atom",),
        ),
        Parameter(
            "hybrid_forces",
            "flag",
            text(
                "the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that forces "
                "(at fixed charges) and what differentiation brings through charges that depend on the positions add "
                "up to the total force. Nothing is detached: second derivatives through the charges are those of the "
                "true function. Of `madelung.torch` and `madelung.jax`, which differentiate."
            ),
            False,
            without=("numpy", "cuda"),
        ),
    ),
)
STREAM = Parameter(
    "stream",
    "stream",
    text("of `madelung.cuda` alone, whose documentation has it: the stream where the work is put."),
    None,
    without=("numpy", "torch", "jax"),
)

ENERGIES = text(
    "The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,) "
    "(the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, "
    "else (B, 3, 3), or (N, 3, 3)), "
    "where E is the sum of the energies. A single array comes unwrapped, several as a tuple."
)
ERRORS = text("TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.")
ENERGY_ERRORS = text(
    "TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two "
    "charges on one point.",
    jax="What only the kernel can see (two charges on one point, a cell that is not finite under `jit`) is raised by "
    "XLA as `jax.errors.JaxRuntimeError`, with the same text.",
)
