"""Every public function with every argument made bad: an error that names the argument, and never a crash."""

import numpy as np
import pytest

from madelung import numpy as mn

R = np.array([[0.1, 0.2, 0.3], [1.0, 1.4, 0.2], [2.1, 0.5, 1.9], [0.4, 2.2, 2.6]])
Q = np.array([1.0, -1.0, 0.5, -0.5])
CELL = np.array([[3.0, 0.0, 0.0], [0.4, 3.2, 0.0], [-0.3, 0.5, 3.1]])
PAIRS, PTR, SHIFTS = mn.neighbor_list(R, 2.5, CELL)
MATRIX, _, MATRIX_SHIFTS = mn.neighbor_list(R, 2.5, CELL, format="matrix")


def changed(array, index, value):
    copy = array.copy()
    copy[index] = value
    return copy


NOT_REAL = [
    ("integers", R.astype(np.int64)),
    ("float16", R.astype(np.float16)),
    ("complex", R.astype(np.complex128)),
    ("objects", R.astype(object)),
    ("text", R.astype(str)),
    ("bool", R.astype(bool)),
    ("long double", R.astype(np.longdouble)),
    ("None", None),
    ("a string", "positions"),
    ("a dict", {}),
    ("a masked array", np.ma.masked_array(R, R > 2)),
    ("ragged", [[0.0, 1.0], [2.0]]),
    ("complex list", [[1j, 0, 0]] * 4),
]

BAD_NUMBERS = [
    ("zero", 0.0),
    ("negative", -1.0),
    ("NaN", float("nan")),
    ("infinite", float("inf")),
    ("a string", "1"),
    ("bool", True),
    ("complex", 1j),
    ("an object", object()),
    ("huge", 10**400),
]

POSITIONS = [
    *NOT_REAL,
    ("rank 1", R[0]),
    ("rank 3", R[None]),
    ("two columns", R[:, :2]),
    ("a scalar", 1.0),
    ("NaN", changed(R, (2, 1), np.nan)),
    ("infinite", changed(R, (2, 1), np.inf)),
]

CELLS = [
    *[(name, x) for name, x in NOT_REAL if name != "None"],
    ("rank 1", CELL[0]),
    ("rank 4", CELL[None, None]),
    ("two rows", CELL[:2]),
    ("two columns", CELL[:, :2]),
    ("NaN", changed(CELL, (0, 0), np.nan)),
    ("infinite", changed(CELL, (0, 0), np.inf)),
    ("singular", np.ones((3, 3))),
    ("float32", CELL.astype(np.float32)),
]

BATCHES = [
    ("unsorted", np.array([0, 1, 0, 1])),
    ("negative", np.array([-1, 0, 0, 0])),
    ("too short", np.zeros(3, int)),
    ("too long", np.zeros(5, int)),
    ("rank 2", np.zeros((4, 1), int)),
    ("floats", np.zeros(4)),
    ("bool", np.zeros(4, bool)),
    ("beyond 32 bits", np.array([0, 0, 0, 2**40])),
    ("beyond all memory", np.array([0, 0, 0, 2**31 - 2])),
    ("objects", np.array([None] * 4)),
    ("a string", "0000"),
]

PBC = [
    ("one axis", np.array([True])),
    ("rank 3", np.ones((1, 1, 3), bool)),
    ("integers", 2 * np.ones(3, int)),
    ("a float", 1.0),
    ("a string", "TTT"),
]

FLAGS = [("an integer", 1), ("a string", "yes"), ("None", None), ("an array", np.array([True]))]

COUNTS = [("negative", -1), ("a float", 3.0), ("a string", "3"), ("bool", True), ("huge", 2**40)]

NEIGHBORS = {
    "cutoff": [*BAD_NUMBERS, ("tiny", 1e-300), ("None", None), ("an array", np.ones(2))],
    "cell": CELLS,
    "pbc": PBC,
    "batch_idx": BATCHES,
    "batch_ptr": [
        ("not from 0", np.array([1, 4])),
        ("not to N", np.array([0, 3])),
        ("falling", np.array([0, 5, 4])),
        ("huge", np.array([0, 2**31 - 1])),
        ("empty", np.zeros(0, int)),
        ("floats", np.array([0.0, 4.0])),
        ("rank 2", np.array([[0, 4]])),
    ],
    "half_fill": FLAGS,
    "format": [("unknown", "dense"), ("None", None), ("bytes", b"coo")],
    "max_neighbors": [*COUNTS, ("too small", 1)],
    "capacity": [*COUNTS, ("too small", 1)],
    "fill_value": [("without a matrix", -1), ("a float", -1.0), ("huge", 2**40)],
    "return_distances": FLAGS,
    "return_vectors": FLAGS,
    "method": [("unknown", "magic"), ("a number", 3)],
}

CHARGES = [
    *NOT_REAL,
    ("too few", Q[:3]),
    ("too many", np.ones(5)),
    ("rank 2", Q[:, None]),
    ("float32", Q.astype(np.float32)),
    ("NaN", changed(Q, 0, np.nan)),
    ("infinite", changed(Q, 0, np.inf)),
]

PER_SYSTEM = [*BAD_NUMBERS, ("two of one", np.ones(2)), ("rank 2", np.ones((1, 1))), ("an array of text", ["a"])]

# A cell of zeros is that of an open system, which is no lattice.
LATTICES = [*CELLS, ("None", None), ("zero", np.zeros((3, 3)))]

COMMON = {
    "charges": CHARGES,
    "cell": [*CELLS, ("None", None)],
    "batch_idx": BATCHES,
}

LAWS = [("a string", "yukawa"), ("a number", 0.8), ("an array", np.ones(1))]

EXPONENTS = [*COUNTS, ("zero", 0), ("seven", 7), ("None", None)]

CHANNELS = [
    *[case for case in CHARGES if case[0] not in ("rank 2", "integers")],
    ("no channels", np.ones((4, 0))),
    ("rank 3", Q[:, None, None]),
]

SUMS = {
    **COMMON,
    "charges": CHANNELS,
    "prefactor": [case for case in BAD_NUMBERS if case[0] not in ("zero", "negative")],
    "energy_reduction": [("unknown", "mean"), ("None", None)],
    "compute_forces": FLAGS,
    "compute_charge_gradients": FLAGS,
    "compute_virial": FLAGS,
}

FUNCTIONS = {
    "neighbor_list": ({"positions": R, "cutoff": 2.5, "cell": CELL}, {"positions": POSITIONS, **NEIGHBORS}),
    "ewald_real_space": (
        {"positions": R, "charges": Q, "cell": CELL, "alpha": 1.0, "cutoff": 2.5},
        {
            "positions": POSITIONS,
            **SUMS,
            "alpha": [*PER_SYSTEM, ("None", None)],
            "cutoff": [*BAD_NUMBERS, ("None", None)],
            "exponent": EXPONENTS,
            "law": LAWS,
        },
    ),
    "ewald_reciprocal_space": (
        {"positions": R, "charges": Q, "cell": CELL, "alpha": 1.0, "k_cutoff": 6.0},
        {
            "positions": POSITIONS,
            **SUMS,
            "alpha": [*PER_SYSTEM, ("None", None)],
            "cell": LATTICES,
            "k_cutoff": [*PER_SYSTEM, ("None", None)],
            "exponent": EXPONENTS,
            "law": LAWS,
        },
    ),
    "ewald_summation": (
        {"positions": R, "charges": Q, "cell": CELL},
        {
            "positions": POSITIONS,
            **SUMS,
            "cell": CELLS,
            "alpha": PER_SYSTEM,
            "k_cutoff": PER_SYSTEM,
            "cutoff": BAD_NUMBERS,
            "exponent": EXPONENTS,
            "law": LAWS,
            "widths": [*[case for case in CHARGES if case[0] != "None"], ("zero", np.zeros(4))],
            "accuracy": [*BAD_NUMBERS, ("one", 1.0), ("below rounding", 1e-20)],
            "pbc": [
                *PBC,
                ("a slab", np.array([True, True, False])),
                ("three systems", np.ones((3, 3), bool)),
            ],
        },
    ),
    "pme_reciprocal_space": (
        {"positions": R, "charges": Q, "cell": CELL, "alpha": 1.0, "mesh_dimensions": (8, 8, 8)},
        {
            "positions": POSITIONS,
            **SUMS,
            "cell": LATTICES,
            "alpha": [*PER_SYSTEM, ("None", None)],
            "exponent": EXPONENTS,
            "law": LAWS,
        },
    ),
    "particle_mesh_ewald": (
        {"positions": R, "charges": Q, "cell": CELL},
        {
            "positions": POSITIONS,
            **SUMS,
            "cell": CELLS,
            "alpha": PER_SYSTEM,
            "cutoff": BAD_NUMBERS,
            "mesh_spacing": BAD_NUMBERS,
            "exponent": EXPONENTS,
            "law": LAWS,
            "widths": [*[case for case in CHARGES if case[0] != "None"], ("zero", np.zeros(4))],
            "accuracy": [*BAD_NUMBERS, ("one", 1.0), ("below rounding", 1e-20)],
            "pbc": [*PBC, ("a slab", np.array([True, True, False]))],
        },
    ),
    "latent_ewald": (
        {"positions": R, "charges": Q, "cell": CELL},
        {
            "positions": POSITIONS,
            **SUMS,
            "cell": CELLS,
            "sigma": [*PER_SYSTEM, ("None", None)],
            "dl": [*PER_SYSTEM, ("None", None)],
            "remove_self_interaction": FLAGS,
            "neighbors": [("a string", "open"), ("an array", np.zeros((2, 0), int))],
            "pbc": [
                *PBC,
                ("a slab", np.array([True, True, False])),
                ("three systems", np.ones((3, 3), bool)),
            ],
        },
    ),
    "estimate_ewald_parameters": (
        {"positions": R, "charges": Q, "cell": CELL},
        {
            **COMMON,
            "cell": LATTICES,
            "positions": [case for case in POSITIONS if case[0] not in ("NaN", "infinite")],
            "charges": [case for case in CHARGES if case[0] not in ("NaN", "infinite")],
            "alpha": PER_SYSTEM,
            "k_cutoff": PER_SYSTEM,
            "cutoff": BAD_NUMBERS,
            "accuracy": [*BAD_NUMBERS, ("one", 1.0), ("below rounding", 1e-20)],
        },
    ),
}

TABLE = [
    pytest.param(function, argument, value, id=f"{function}-{argument}-{name}")
    for function, (_, arguments) in FUNCTIONS.items()
    for argument, values in arguments.items()
    for name, value in values
]


@pytest.mark.parametrize(("function", "argument", "value"), TABLE)
def test_bad_arguments_are_named(function, argument, value):
    good, _ = FUNCTIONS[function]
    with pytest.raises((ValueError, TypeError), match=f"^`{argument}`: expected "):
        getattr(mn, function)(**{**good, argument: value})


def test_the_good_arguments_are_good():
    for function, (good, _) in FUNCTIONS.items():
        getattr(mn, function)(**good)


LIST = {"neighbor_list": PAIRS, "neighbor_ptr": PTR, "neighbor_shifts": SHIFTS}
ROWS = {"neighbor_matrix": MATRIX, "neighbor_matrix_shifts": MATRIX_SHIFTS}
LISTS = {
    "neighbor_list": (
        LIST,
        [
            ("floats", PAIRS.astype(float)),
            ("beyond 32 bits", PAIRS.astype(np.int64) + 2**40),
            ("unsigned beyond 32 bits", PAIRS.astype(np.uint64) + 2**63),
            ("transposed", PAIRS.T),
            ("unsorted", PAIRS[:, ::-1]),
            ("column out of range", changed(PAIRS, (1, 3), 4)),
            ("row out of range", changed(PAIRS, (0, -1), 4)),
            ("negative", changed(PAIRS, (1, 3), -1)),
            ("not full", changed(PAIRS, (1, 3), (PAIRS[1, 3] + 1) % 4)),
            ("rank 1", PAIRS[0]),
        ],
    ),
    "neighbor_ptr": (
        LIST,
        [
            ("of other rows", changed(PTR, 2, PTR[2] - 1)),
            ("too short", PTR[:-1]),
            ("floats", PTR.astype(float)),
        ],
    ),
    "neighbor_shifts": (
        LIST,
        [
            ("None", None),
            ("floats", SHIFTS.astype(float)),
            ("too few", SHIFTS[:-1]),
            ("two columns", SHIFTS[:, :2]),
            ("beyond 32 bits", SHIFTS.astype(np.int64) + 2**40),
        ],
    ),
    "neighbor_matrix": (
        ROWS,
        [
            ("floats", MATRIX.astype(float)),
            ("too few rows", MATRIX[:3]),
            ("padding inside", changed(MATRIX, (0, 0), 4)),
            ("rank 1", MATRIX[0]),
            ("beside a list", MATRIX),
        ],
    ),
    "neighbor_matrix_shifts": (
        ROWS,
        [("None", None), ("too few", MATRIX_SHIFTS[:3]), ("floats", MATRIX_SHIFTS.astype(float))],
    ),
    "fill_value": (ROWS, [("an atom", 2), ("a float", 4.0), ("huge", 2**40)]),
    "half_fill": (LIST, FLAGS),
}


@pytest.mark.parametrize("function", ["ewald_real_space", "ewald_summation"])
@pytest.mark.parametrize(
    ("argument", "name", "value"),
    [
        pytest.param(argument, name, value, id=f"{argument}-{name}")
        for argument, (_, values) in LISTS.items()
        for name, value in values
    ],
)
def test_bad_lists_are_named(function, argument, name, value):
    good, _ = FUNCTIONS[function]
    given = {**LISTS[argument][0], argument: value}
    if name == "beside a list":
        given |= LIST
    with pytest.raises((ValueError, TypeError), match=f"^`{argument}`: expected "):
        getattr(mn, function)(**{**good, "cutoff": 2.5, **given})


@pytest.mark.parametrize("function", ["ewald_real_space", "ewald_summation"])
def test_lists_that_are_not_what_they_are_said_to_be(function):
    good, _ = FUNCTIONS[function]
    call = getattr(mn, function)
    half, _, half_shifts = mn.neighbor_list(R, 2.5, CELL, half_fill=True)
    with pytest.raises(ValueError, match="^`neighbor_list`: expected a full list"):
        call(**{**good, "cutoff": 2.5}, neighbor_list=half, neighbor_shifts=half_shifts)
    with pytest.raises(ValueError, match="^`neighbor_list`: expected a half list"):
        call(**{**good, "cutoff": 2.5}, **LIST, half_fill=True)
    with pytest.raises(ValueError, match="^`neighbor_list`: expected pairs within one system"):
        call(**{**good, "cutoff": 2.5}, **LIST, batch_idx=np.array([0, 0, 1, 1]))
    for name, value in {**LIST, **ROWS, "fill_value": 4, "half_fill": True}.items():
        if name not in ("neighbor_list", "neighbor_matrix"):
            with pytest.raises(ValueError, match=f"^`{name}`: expected "):
                call(**{**good, "cutoff": 2.5}, **{name: value})


def test_a_list_needs_its_cutoff():
    with pytest.raises(ValueError, match="^`cutoff`"):
        mn.ewald_summation(R, Q, CELL, **LIST)


def test_cells_of_several_systems_need_to_know_whose_they_are():
    cells = np.stack([CELL, CELL])
    with pytest.raises(ValueError, match="^`batch_idx`"):
        mn.ewald_summation(R, Q, cells)
    for given in ({"cell": cells}, {"cell": CELL, "pbc": np.ones((2, 3), bool)}):
        with pytest.raises(ValueError, match="^`batch_idx`"):
            mn.neighbor_list(R, 2.0, **given)
    with pytest.raises(ValueError, match="^`pbc`"):
        mn.neighbor_list(R, 2.0, cells, np.ones((3, 3), bool), batch_idx=np.zeros(4, int))


def test_more_waves_than_can_be_numbered():
    with pytest.raises(ValueError, match="^`k_cutoff"):
        mn.ewald_reciprocal_space(R, Q, CELL, 1.0, 1e9)


def test_periodic_axes_need_a_cell():
    with pytest.raises(ValueError, match="^`cell`"):
        mn.neighbor_list(R, 2.0, pbc=np.array([True, False, False]))


def test_both_ways_to_name_a_batch_must_agree():
    with pytest.raises(ValueError, match="^`batch_idx`"):
        mn.neighbor_list(R, 2.0, batch_idx=np.array([0, 0, 0, 1]), batch_ptr=np.array([0, 2, 4]))


def test_results_beyond_the_dtype_are_an_error():
    tiny = (R * 1e-3).astype(np.float32)
    cell = (CELL * 1e-3).astype(np.float32)
    with pytest.raises(ValueError, match="`"):
        mn.ewald_summation(tiny, np.full(4, 1e30, np.float32), cell)


def test_lists_are_looked_at_in_every_call():
    """One that was good and is written to, as the offsets that go through all integers."""
    arrays = {"neighbor_list": PAIRS.copy(), "neighbor_ptr": PTR.copy(), "neighbor_shifts": SHIFTS.copy()}
    expected = mn.ewald_real_space(R, Q, CELL, 0.9, cutoff=2.5, **arrays)
    far = 2_000_000_000
    changes = [("neighbor_list", (row, n), value) for row, n, value in ((0, 0, 1), (1, 3, 4), (1, 2, -1), (1, 0, 2))]
    changes += [("neighbor_shifts", (4, 1), 3), ("neighbor_ptr", 0, 1), ("neighbor_ptr", 2, 0), ("neighbor_ptr", 4, 3)]
    changes += [("neighbor_ptr", slice(1, 4), [far, -far, far])]
    for name, at, value in changes:
        good = arrays[name].copy()
        arrays[name][at] = value
        with pytest.raises(ValueError, match="`neighbor_(list|ptr|shifts)`: expected"):
            mn.ewald_real_space(R, Q, CELL, 0.9, cutoff=2.5, **arrays)
        arrays[name][...] = good
        assert np.array_equal(mn.ewald_real_space(R, Q, CELL, 0.9, cutoff=2.5, **arrays), expected)
