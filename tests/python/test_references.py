"""The stored references against the script that made them."""

import importlib.util

import numpy as np
import pytest

from conftest import CASES, ROOT, rms


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("references", ROOT / "tests" / "data" / "make_ewald_references.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["SrTiO3", "ZnO_wurtzite", "triclinic_random_charged"])
def test_small_references_are_made_again(script, name):
    """Stored values differ from the sum by their rounding to float64, ½ε = 1.1e-16 of the largest element, which is at
    most thrice the RMS here. A `longdouble` of 53 bits (beyond x86) rounds sums of 1e4 terms to some 1e-14."""
    stored = vars(CASES[name])
    case = {key: stored[key].tolist() for key in ("positions", "charges", "cell")}
    found = script.sums(case, 2.1)
    bound = 5e-16 if np.finfo(np.longdouble).nmant >= 63 else 1e-13
    for key in script.VALUES:
        scale = rms(found[key])
        if key == "forces":
            # Symmetry makes those of SrTiO3 zero.
            scale = max(scale, rms(found["atom_energies"]))
        assert rms(np.float64(stored[key]) - found[key]) <= bound * scale, key
