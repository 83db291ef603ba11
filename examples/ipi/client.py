"""A client of i-PI: charges and the potential of Fumi and Tosi (J. Phys. Chem. Solids 25, 31 (1964)) for NaCl.

    python start.py             # writes start.xyz
    i-pi input.xml &            # waits for a client
    python client.py            # ends with i-PI

The name of the socket is that of <address>, or the first argument.
"""

import sys

import ase.io
from ase.calculators.socketio import SocketClient

from madelung.ase import Madelung

# In eV and Å.
BORN_MAYER = {
    "Na-Na": {"amplitude": 0.26375, "steepness": 1 / 0.317, "sigma": 2.340, "c6": 1.05, "c8": 0.499},
    "Na-Cl": {"amplitude": 0.21100, "steepness": 1 / 0.317, "sigma": 2.755, "c6": 6.99, "c8": 8.68},
    "Cl-Cl": {"amplitude": 0.15825, "steepness": 1 / 0.317, "sigma": 3.170, "c6": 72.4, "c8": 145.4},
}

atoms = ase.io.read("start.xyz")
atoms.calc = Madelung({"Na": 1, "Cl": -1}, potentials={"born_mayer": BORN_MAYER}, potential_cutoff=8.0)
SocketClient(unixsocket=(*sys.argv[1:], "madelung")[0]).run(atoms, use_stress=True)
