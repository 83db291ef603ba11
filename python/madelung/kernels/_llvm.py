"""Machine code for kernels made at run time, by LLVM as PyPI's `llvmlite` has it, where it is installed.

Parts of kernels run in an interpreter until their machine code is there; bits are equal, so it may come at any time.
Object code is kept on disk, in `$MADELUNG_CACHE`, else `madelung` in the user's folder for caches. Files are written
under a name of their own and renamed, so that processes that start together see whole files; errors of the disk are
ignored, for compiling again costs time and nothing else. What LLVM refuses is a warning, and the interpreter stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pathlib
import re
import threading
import warnings

from madelung import _native

__all__ = ["compiler", "info", "install", "install_all"]

# Earlier ones have an LLVM that does not read the text.
_OLDEST = (0, 45)
# The first bytes of a file; other contents, other bytes. A length of 8 bytes and a hash of 16 follow.
_MAGIC = b"madelung object1"
_HEAD = len(_MAGIC) + 24

# A fork waits for a part that is being compiled, as nobody would free the locks of LLVM in the child.
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_numbers = itertools.count()


class _Refused(Exception):
    """Why there is no machine code."""


class _Compiler:
    """LLVM for this processor."""

    def __init__(self):
        try:
            import llvmlite
            import llvmlite.binding as llvm
        except ImportError as error:
            raise _Refused("llvmlite is not installed (`pip install madelung[kernels]`)") from error
        self.version = llvmlite.__version__
        found = tuple(int(n) for n in re.findall(r"\d+", self.version)[:2])
        if found < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise _Refused(f"llvmlite {self.version} is too old: {oldest} or newer is needed")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._llvm = llvm
        self._symbols = dict(_native.machine_code_symbols())
        for name, address in self._symbols.items():
            llvm.add_symbol(name, address)
        features = llvm.get_host_cpu_features()
        self._processor = (
            llvm.get_host_cpu_name(),
            ",".join(f"{'+' if features[f] else '-'}{f}" for f in sorted(features)),
        )
        self._machine = self._new_machine()
        self._target = (llvm.get_process_triple(), str(self._machine.target_data))
        self._engines = []

    def _new_machine(self):
        cpu, features = self._processor
        return self._llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu, features=features, opt=2, jit=True
        )

    def address(self, text):
        """The address of the function that a text defines."""
        key = _hash(
            "\0".join((text, self.version, *map(str, self._llvm.llvm_version_info), *self._processor)).encode()
        ).hex()
        code = _read(key)
        if code is None:
            code = self._object(text)
            _write(key, code)
        # A target machine is its engine's from then on.
        engine = self._llvm.create_mcjit_compiler(self._llvm.parse_assembly(""), self._new_machine())
        engine.add_object_file(self._llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        self._engines.append(engine)
        return engine.get_function_address(_native.machine_code_name())

    def _object(self, text):
        module = self._llvm.parse_assembly(text)
        # Names that LLVM does not find when it links would end the process.
        for function in module.functions:
            name = function.name
            if function.is_declaration and not name.startswith("llvm.") and name not in self._symbols:
                raise _Refused(f"the text calls `{name}`, which is not known")
        module.triple, module.data_layout = self._target
        module.verify()
        options = self._llvm.create_pipeline_tuning_options(speed_level=2)
        builder = self._llvm.create_pass_builder(self._machine, options)
        builder.getModulePassManager().run(module, builder)
        return self._machine.emit_object(module)


_compiler: _Compiler | _Refused | None = None


def _the_compiler():
    global _compiler
    if _compiler is None:
        try:
            _compiler = _Compiler()
        except _Refused as reason:
            _compiler = reason
            if "not installed" not in str(reason):
                _warn(reason)
        except Exception as error:
            _compiler = _Refused(f"llvmlite failed: {error}")
            _warn(_compiler)
    return _compiler


def _warn(reason):
    warnings.warn(f"kernels run in the interpreter: {reason}", RuntimeWarning, stacklevel=4)


def compiler() -> str:
    """Compiler of kernels: LLVM and its version, or the interpreter and why."""
    with _lock:
        found = _the_compiler()
    return f"llvmlite {found.version}" if isinstance(found, _Compiler) else f"interpreter: {found}"


def refused() -> bool:
    """Whether there is no compiler, as was found when one was looked for."""
    return isinstance(_compiler, _Refused)


def install(source: str, part: str, single: bool, isa: str | None = None) -> bool:
    """Machine code for a part of the kernels of a source, for f32 arrays (`single`) or f64 arrays, in the place of the
    interpreter, if LLVM is there: whether it has machine code now. `isa`: by default that of this processor.
    """
    isa = isa or _native.isa()
    with _lock:
        if _native.has_machine_code(source, part, single, isa):
            return True
        found = _the_compiler()
        if not isinstance(found, _Compiler):
            return False
        try:
            address = found.address(_native.kernel_llvm(source, part, single, isa))
            _native.install_machine_code(source, part, single, isa, address)
        except Exception as error:
            _warn(f"LLVM of llvmlite {found.version} refuses {part}; please report this: {error}")
            return False
    return True


def install_all(source: str, single: bool) -> bool:
    """`install` for every part of the kernels of a source: whether all have machine code."""
    return all([install(source, name, single) for _, _, _, name in _native.kernel_parts(source)])


def info() -> dict[str, str]:
    """`compiler`: what runs kernels, LLVM and its version, or the interpreter and why; `cache`: the folder with machine
    code that was made before."""
    return {"compiler": compiler(), "cache": str(_folder())}


def _folder():
    if cache := os.environ.get("MADELUNG_CACHE"):
        return pathlib.Path(cache)
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(cache) / "madelung"
    if home := os.environ.get("HOME"):
        return pathlib.Path(home) / ".cache" / "madelung"
    return None


def _hash(of):
    return hashlib.blake2b(of, digest_size=16).digest()


def _head(code):
    return _MAGIC + len(code).to_bytes(8, "little") + _hash(code)


def _read(key):
    """The code kept under a key, if the file is whole."""
    if (folder := _folder()) is None:
        return None
    try:
        file = (folder / f"{key}.o").read_bytes()
    except OSError:
        return None
    head, code = file[:_HEAD], file[_HEAD:]
    return code if head == _head(code) else None


def _write(key, code):
    if (folder := _folder()) is None:
        return
    own = folder / f"{key}.{os.getpid()}-{next(_numbers)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own.write_bytes(_head(code) + code)
        own.replace(folder / f"{key}.o")
    except OSError:
        with contextlib.suppress(OSError):
            own.unlink()
