"""The structure that i-PI and its clients start from: 64 displaced ions of rock salt, in start.xyz."""

from ase.build import bulk

atoms = bulk("NaCl", "rocksalt", a=5.64, cubic=True).repeat(2)
atoms.rattle(0.03, seed=1)
atoms.write("start.xyz")
