"""The plugin of LAMMPS with Madelung's pair styles, which `lmp` loads of itself."""

from pathlib import Path


def folder() -> str:
    """The folder of the plugin, as LAMMPS' entry point `lammps.plugins` asks for it."""
    return str(Path(__file__).resolve().parent)
