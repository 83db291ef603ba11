#!/usr/bin/env bash
# Madelung's tests and benchmarks on this machine's NVIDIA GPU, without network and without changing the machine.
#
#   ./run.sh [--out FOLDER] [--python PYTHON] [--device cuda|cpu] [PART...]
#
# Needs Python 3.10 or newer with PyTorch, JAX or both, and a C library as new as the file `glibc` says. What runs is
#
#   info       the machine, and what is installed
#   rust       every op against the CPU, graphs, errors, orders; primitives; neighbour search (no Python)
#   torch      the test suite of madelung.torch on the GPU: derivatives, captured graphs, streams, lifetimes
#   compiled   those of its tests that go through torch.compile and torch.export
#   jax        that of madelung.jax
#   arrays     madelung.cuda with the arrays of CuPy, Numba, PyTorch and JAX, where they are
#   registers  every kernel through this machine's NVRTC: registers, and spills, which fail
#   sanitizer  compute-sanitizer's memcheck, racecheck and synccheck on small cases, where it is installed
#   bench      times, bandwidth and rates beside the card's limits, and other libraries where they are installed
#
# and all of it is the default: up to eight minutes. Parts that test run side by side; the benchmark runs alone. Each
# part's output goes to FOLDER/PART.log as it comes, the table to FOLDER/summary.txt, all figures to FOLDER/results.json.
# With `--device cpu` the parts that can run without a GPU do, to try this script.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$PWD/results python=python3 device=cuda parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --python) python=$2; shift ;;
    --device) device=$2; shift ;;
    info|rust|torch|compiled|jax|arrays|registers|sanitizer|bench) parts+=("$1") ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(info rust torch compiled jax arrays registers sanitizer bench)
[ "$device" = cuda ] || [ "$device" = cpu ] || { echo "--device is cuda or cpu, not $device" >&2; exit 2; }

need=$(cat "$here/glibc") have=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
[ "$(printf '%s\n' "$need" "$have" | sort -V | head -n 1)" = "$need" ] ||
  { echo "this folder needs glibc $need or newer, and here is $have: build it on an older machine" >&2; exit 2; }

mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
rm -rf "$out/site" "$out"/*.log "$out"/*.json "$out"/*.status
for wheel in "$here"/wheels/*.whl; do
  "$python" -m zipfile -e "$wheel" "$out/site" || exit 2
done
mkdir -p "$out/bin"
for program in "$here"/bin/*.xz; do
  [ -e "$program" ] || continue
  unpacked=$out/bin/$(basename "$program" .xz)
  "$python" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
    "$program" "$unpacked" && chmod +x "$unpacked" || exit 2
done

export PYTHONPATH="$out/site" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export MADELUNG_TEST_DEVICE=$device MADELUNG_CACHE="$out/cache"
# What others compile goes there too: the user's own folder may be closed.
export XDG_CACHE_HOME="$out/cache" TRITON_CACHE_DIR="$out/cache/triton" TORCHINDUCTOR_CACHE_DIR="$out/cache/inductor"
export CUPY_CACHE_DIR="$out/cache/cupy" CUDA_CACHE_PATH="$out/cache/cuda"
# Plugins of an installed pytest are made for that one.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
# PyTorch, JAX and the rest share the card.
export XLA_PYTHON_CLIENT_PREALLOCATE=false

has() { "$python" -c "import $1" > /dev/null 2>&1; }
# What tests may lack here: the stand-ins for CUDA's libraries are not in this folder.
without() {
  local name
  printf cuda
  for name in torch jax ase openmm dftd3; do has $name || printf ,%s $name; done
}
# Tests that are stopped say what has failed so far.
tests() {
  "$python" -c '
import pytest, signal, sys
signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))' -q -ra --tb=short --continue-on-collection-errors -p no:cacheprovider \
    --rootdir="$here" --without "$(without)" "$@"
}

info() {
  nvidia-smi || echo "nvidia-smi is not there"
  uname -srm
  "$python" --version
  "$python" - <<'END'
import importlib.metadata, importlib.util

for name in ("numpy", "torch", "jax", "cupy", "numba", "warp-lang", "nvalchemi-toolkit-ops", "torch-pme"):
    found = [d for d in importlib.metadata.distributions() if (d.metadata["Name"] or "").lower().startswith(name)]
    print(name, ", ".join(sorted(f"{d.metadata['Name']} {d.version}" for d in found)) or "is not installed")
import madelung

print("madelung", madelung.__version__, "sees", ", ".join(madelung.devices()))
END
}

rust() {
  [ "$device" = cuda ] || { echo "left out: it needs a GPU, or the stand-ins of the source tree"; return 0; }
  local failed=0
  use_packages
  "$out/bin/primitives" || failed=1
  "$out/bin/neighbors" device:: hash_grid:: grid_query:: || failed=1
  "$out/bin/ops" cuda:: || failed=1
  return $failed
}

# NVRTC and cuFFT may be those of Python's packages alone, which the loader does not know.
use_packages() {
  local folders
  folders=$("$python" -c 'from madelung import _cuda; print(*_cuda.folders(), sep=":")')
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders"
}

torch() {
  has torch || { echo "left out: PyTorch is not installed"; return 0; }
  tests "$here/tests/python/torch" --ignore="$here/tests/python/torch/test_graphs.py" \
    --ignore="$here/tests/python/torch/test_function_graphs.py"
}

compiled() {
  has torch || { echo "left out: PyTorch is not installed"; return 0; }
  tests "$here/tests/python/torch/test_function_graphs.py" "$here/tests/python/torch/test_graphs.py"
}

jax() {
  has jax || { echo "left out: JAX is not installed"; return 0; }
  JAX_PLATFORMS=$device tests "$here/tests/python/jax"
}

arrays() {
  [ "$device" = cuda ] || { echo "left out: it needs a GPU, or the stand-ins of the source tree"; return 0; }
  tests "$here/tests/python/test_cuda_libraries.py"
}

# Compiles all there is on all processors: the others go first.
registers() {
  renice -n 19 -p $BASHPID > /dev/null
  tests -s "$here/tests/python/test_cuda_text.py" "$here/tests/python/test_cuda_primitives.py"
}

sanitizer() {
  local tool failed=0
  [ "$device" = cuda ] || { echo "left out: it needs a GPU"; return 0; }
  tool=$(command -v compute-sanitizer) || { echo "left out: compute-sanitizer is not installed"; return 0; }
  use_packages
  checked() {
    echo "$1: $2"
    "$tool" --tool "$1" --error-exitcode 9 "$out/bin/$2" "${@:3}" --test-threads 1 || failed=1
  }
  checked memcheck ops cuda::behaviour:: cuda::search::
  checked synccheck ops cuda::behaviour:: cuda::search::
  checked racecheck primitives scan:: reduce:: transpose:: sort:: suite:: --skip transform --skip inverse --skip waves
  checked racecheck neighbors device::calls::
  checked racecheck neighbors hash_grid::device::a_ hash_grid::device::what_is
  checked memcheck neighbors hash_grid::device::a_ hash_grid::device::what_is
  checked memcheck primitives
  return $failed
}

bench() {
  has torch || { echo "left out: PyTorch is not installed"; return 0; }
  local small=() group failed=0
  [ "$device" = cuda ] || small=(--small --seconds 0.05)
  # A process for each group: what breaks in one, the device's context too, leaves the others.
  for group in floor sums lists large; do
    "$python" "$here/benches/python/gpu.py" --device "$device" --only $group --json "$out/bench.json" "${small[@]}" ||
      failed=1
  done
  return $failed
}

export here out python device
export -f has without tests use_packages info rust torch compiled jax arrays registers sanitizer bench

# Runs a part, and all that it starts, for so many seconds at most: its output to its log, how it ended to its status.
part() {
  local name=$1 limit=$2 begin=$SECONDS code
  timeout --kill-after=10 "$limit" bash -c "trap 'exit 143' TERM; $name" > "$out/$name.log" 2>&1
  code=$?
  echo "$code $((SECONDS - begin)) $limit" > "$out/$name.status"
  echo "$name: ended with $code after $((SECONDS - begin)) s"
}

wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }

cd "$out" || exit 2
wanted info && part info 30
tested=()
for name in rust torch compiled jax arrays registers sanitizer; do
  wanted $name && { part $name 240 & tested+=($!); }
done
[ ${#tested[@]} -eq 0 ] || wait "${tested[@]}"
wanted bench && part bench 160
"$python" "$here/summary.py" "$out" "${parts[@]}"
