"""The examples as modules and as programs."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import torch

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def load(name: str) -> ModuleType:
    """An example as a module, which worker processes can import as well."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def main(module: ModuleType, *arguments: object) -> int:
    """An example in this process, whose number of threads stays what it is."""
    return module.main([str(x) for x in (*arguments, "--threads", torch.get_num_threads())])
