# Needs cargo, python3 (3.10 or later, with venv) and a C/C++ compiler; the rest is installed into .venv.
#
#   make run       the command line on the example structures, and the example of a potential of your own
#   make examples  the examples in Python, which need PyTorch and JAX: a minute or two (5 GB, into .venv)
#   make test      all tests, Rust and Python; those of the bridges for ops that stand for all (tests/python/shapes.py)
#   make test-all  those of the bridges for every op, which takes twice as long
#   make test-checked  good and bad calls of every op with checks of overflow and debug assertions
#   make test-oldest  the tests of madelung.torch, madelung.jax and machine code on the oldest PyTorch, JAX and llvmlite that
#                  are supported (5 GB, into .venv-oldest)
#   make test-middle  the graphs of madelung.torch on a PyTorch in between (5 GB, into .venv-middle)
#   make lint      formatting, lints, and the rules of docs/design.md that tools/house.py checks
#   make functions writes the public functions of every namespace from python/madelung/_functions, and their page
#   make bench     benchmarks
#   make gpu-bundle  BUNDLE (target/gpu-bundle): a folder that tests and measures the library on any x86-64 Linux machine
#                  with an NVIDIA GPU, by its run.sh
#   make sanitize  the unsafe modules of the CPU path under memcheck (needs valgrind) and between closed pages
#   make fuzz      CALLS (1000000) good and bad calls of every op
#   make clean     removes what the others made
#
# Everything is built in the release profile and with the features of the whole workspace (--workspace), so that the
# extension module, the examples and the tests share one compilation.

CARGO ?= cargo
PYTHON ?= python3
VENV ?= .venv
VENV_OLDEST ?= .venv-oldest
VENV_MIDDLE ?= .venv-middle
TORCH_OLDEST := 2.7.*
TORCH_MIDDLE := 2.11.*
JAX_OLDEST := 0.6.*
LLVMLITE_OLDEST := 0.45.*
RUFF_VERSION := 0.17.5

TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint tests/constraints.txt

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates python src \( -name '*.rs' -o -name '*.cu' -o -name '*.cuh' -o -name Cargo.toml \))
PYTHON_SOURCES := python/madelung tests/python tests/data benches/python examples tools/gpu_bundle tools/house.py tools/functions.py

# The compiler's AddressSanitizer needs a nightly toolchain; memcheck does not. It has no AVX-512 and hides it from the
# tests, which then take the AVX2 lanes. Closed pages see every instruction set, in reads and writes past an array's ends.
MEMCHECK := valgrind --quiet --error-exitcode=1
CALLS ?= 1000000
BUNDLE ?= $(TARGET)/gpu-bundle

.PHONY: run examples test test-checked test-oldest lint functions bench gpu-bundle sanitize fuzz clean
.DELETE_ON_ERROR:

run: $(VENV)/.module
	$(CARGO) build --locked --release --workspace --examples
	$(BIN)/madelung energy --accuracy 1e-12 $(sort $(wildcard examples/data/*.xyz))
	$(TARGET)/release/examples/own_kernel

examples: $(VENV)/.examples
	$(BIN)/python examples/nve_salt.py --plot $(TARGET)/nve_salt.png
	$(BIN)/python examples/train_charges.py --plot $(TARGET)/train_charges.png
	$(BIN)/python examples/train_charges.py --hybrid --plot $(TARGET)/train_charges_hybrid.png
	$(BIN)/python examples/own_kernel.py
	$(BIN)/python examples/stillinger_weber.py --plot $(TARGET)/stillinger_weber.png
	$(BIN)/python examples/phonons.py --plot $(TARGET)/phonons.png
	$(BIN)/python examples/message_passing.py --plot $(TARGET)/message_passing.png
	$(BIN)/python examples/latent_charges.py --plot $(TARGET)/latent_charges.png
	$(BIN)/python examples/water_md.py --plot $(TARGET)/water_md.png
	$(BIN)/python examples/jax_md.py --plot $(TARGET)/jax_md.png
	$(BIN)/python examples/radius_projector.py --plot $(TARGET)/radius_projector.png
	$(BIN)/python examples/knn_projector.py --plot $(TARGET)/knn_projector.png
	$(BIN)/python examples/jax_sharded.py
	$(BIN)/python examples/jax_sharded.py --processes 2

test: $(VENV)/.tests
	$(CARGO) test --locked --release --workspace
	$(BIN)/python -m pytest -n 2 --ignore tests/python/test_memory.py
	$(BIN)/python -m pytest tests/python/test_memory.py

# The development profile, at the level at which building and running take least. Between closed pages too, and with arrays
# that are NaN until they are written.
test-checked:
	CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=none MADELUNG_FENCE=behind $(CARGO) test --locked -p madelung --test fuzz --test memory

# One binary serves every PyTorch and JAX: the module is the one that was built for `make test`. The stand-ins for CUDA's
# libraries are for newer ones.
test-oldest: $(VENV)/.module $(VENV_OLDEST)/.tests
	PYTHONPATH=python $(VENV_OLDEST)/bin/python -m pytest -n 2 --without ase,cuda tests/python/torch tests/python/jax tests/python/test_kernels_llvm.py

lint: $(VENV)/.ruff
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings
	$(PYTHON) tools/house.py
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)

functions: $(VENV)/.module
	$(BIN)/python tools/functions.py

bench:
	$(CARGO) bench --workspace --benches

gpu-bundle: $(VENV)/.zig
	$(BIN)/python tools/gpu_bundle/build.py $(BUNDLE)

# The development profile: with the standard library's checks of unsafe calls, and line numbers. Under memcheck the
# processor has fewer instruction sets than the kernel lists.
sanitize:
	@command -v valgrind > /dev/null || { echo 'make sanitize needs valgrind (apt-get install valgrind)' >&2; exit 1; }
	MADELUNG_FENCE=before $(CARGO) test -p madelung --test memory
	MADELUNG_FENCE=behind $(CARGO) test -p madelung --test memory
	MADELUNG_FENCE=none $(CARGO) --config 'target."cfg(unix)".runner="$(MEMCHECK)"' test -p madelung --test memory
	$(CARGO) --config 'target."cfg(unix)".runner="$(MEMCHECK)"' test -p madelung-core -p madelung-kernel-runtime -p madelung-memory --lib -- --skip accuracy --skip what_the_processor_has
	$(CARGO) --config 'target."cfg(unix)".runner="$(MEMCHECK)"' test -p madelung-core --test all -- pairs:: storage:: tape::

fuzz:
	MADELUNG_FUZZ_CALLS=$(CALLS) $(CARGO) test --release --workspace --test fuzz -- --nocapture

clean:
	$(CARGO) clean
	rm -rf $(VENV) $(VENV_OLDEST) .pytest_cache .ruff_cache python/madelung/*.so
	find $(PYTHON_SOURCES) -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(PIP) 'maturin>=1.8,<2'
	touch $@

# In place: Python sources are those of the tree, and only Rust needs a new build.
$(VENV)/.module: $(VENV)/.created pyproject.toml $(RUST_SOURCES)
	VIRTUAL_ENV=$(abspath $(VENV)) PIP_QUIET=1 $(BIN)/maturin develop --locked --release --extras cli
	touch $@

$(VENV)/.tests: $(VENV)/.module
	$(PIP) 'madelung[test,examples]'
	touch $@

$(VENV)/.examples: $(VENV)/.module
	$(PIP) 'madelung[examples]'
	touch $@

$(VENV_OLDEST)/.tests:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || { echo 'PyTorch $(TORCH_OLDEST) is there for Python 3.10 to 3.13: make test-oldest PYTHON=python3.13' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV_OLDEST)
	$(VENV_OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check 'torch==$(TORCH_OLDEST)' 'jax==$(JAX_OLDEST)' 'llvmlite==$(LLVMLITE_OLDEST)' flatbuffers numpy pytest pytest-xdist setuptools
	touch $@

$(VENV)/.zig: $(VENV)/.created
	$(PIP) 'maturin[zig]>=1.8,<2' 'cargo-zigbuild>=0.20'
	touch $@

$(VENV)/.ruff: $(VENV)/.created
	$(PIP) ruff==$(RUFF_VERSION)
	touch $@
