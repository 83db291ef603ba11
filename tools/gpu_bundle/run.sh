#!/usr/bin/env bash
# Madelung's tests and benchmarks on this machine's NVIDIA GPU, without network and without changing the machine.
#
#   ./run.sh [--out FOLDER] [--python PYTHON] [--device cuda|cpu] [PART...]
#
# Needs Python 3.10 or newer with PyTorch, JAX or both. What runs is
#
#   info       the machine, and what is installed
#   rust       every op against the CPU, graphs, errors, orders; primitives; neighbour search (no Python)
#   torch      the test suite of madelung.torch on the GPU: derivatives, graphs, streams, lifetimes
#   jax        that of madelung.jax
#   arrays     madelung.cuda with the arrays of CuPy, Numba, PyTorch and JAX, where they are
#   registers  every kernel through this machine's NVRTC: registers, and spills, which fail
#   sanitizer  compute-sanitizer's memcheck on a small case, where it is installed
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
    info|rust|torch|jax|arrays|registers|sanitizer|bench) parts+=("$1") ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(info rust torch jax arrays registers sanitizer bench)
[ "$device" = cuda ] || [ "$device" = cpu ] || { echo "--device is cuda or cpu, not $device" >&2; exit 2; }

mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
rm -rf "$out/site" "$out"/*.log "$out"/*.json "$out"/*.status
for wheel in "$here"/wheels/*.whl; do
  "$python" -m zipfile -e "$wheel" "$out/site" || exit 2
done

export PYTHONPATH="$out/site" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export MADELUNG_TEST_DEVICE=$device MADELUNG_CACHE="$out/cache"
# PyTorch, JAX and the rest share the card.
export XLA_PYTHON_CLIENT_PREALLOCATE=false

has() { "$python" -c "import $1" > /dev/null 2>&1; }
tests() { "$python" -m pytest -q -ra -p no:cacheprovider --rootdir="$here" "$@"; }

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
  local program failed=0
  for program in primitives search grids queries ops; do
    "$here/bin/$program" || failed=1
  done
  return $failed
}

torch() {
  has torch || { echo "left out: PyTorch is not installed"; return 0; }
  tests "$here/tests/python/torch"
}

jax() {
  has jax || { echo "left out: JAX is not installed"; return 0; }
  JAX_PLATFORMS=$device tests "$here/tests/python/jax"
}

arrays() {
  [ "$device" = cuda ] || { echo "left out: it needs a GPU, or the stand-ins of the source tree"; return 0; }
  tests "$here/tests/python/test_cuda_libraries.py"
}

registers() {
  tests -s "$here/tests/python/test_cuda_text.py" "$here/tests/python/test_cuda_primitives.py"
}

sanitizer() {
  local tool
  [ "$device" = cuda ] || { echo "left out: it needs a GPU"; return 0; }
  tool=$(command -v compute-sanitizer) || { echo "left out: compute-sanitizer is not installed"; return 0; }
  "$tool" --tool memcheck --error-exitcode 9 "$here/bin/ops" behaviour:: search:: --test-threads 1 &&
    "$tool" --tool racecheck --error-exitcode 9 "$here/bin/primitives" scan:: --test-threads 1
}

bench() {
  has torch || { echo "left out: PyTorch is not installed"; return 0; }
  local small=()
  [ "$device" = cuda ] || small=(--small --seconds 0.05)
  "$python" "$here/benches/python/gpu.py" --device "$device" --json "$out/bench.json" "${small[@]}"
}

# Runs a part for so many seconds at most: its output to its log, how it ended to its status.
part() {
  local name=$1 limit=$2 begin=$SECONDS code
  ( "$name" > "$out/$name.log" 2>&1 ) &
  local work=$!
  ( sleep "$limit"; pkill -TERM -P $work; sleep 5; pkill -KILL -P $work; kill -KILL $work ) 2> /dev/null &
  local guard=$!
  wait $work 2> /dev/null
  code=$?
  pkill -P $guard 2> /dev/null
  kill $guard 2> /dev/null
  echo "$code $((SECONDS - begin)) $limit" > "$out/$name.status"
  echo "$name: ended with $code after $((SECONDS - begin)) s"
}

wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }

cd "$out" || exit 2
wanted info && part info 30
tested=()
for name in rust torch jax arrays registers; do
  wanted $name && { part $name 240 & tested+=($!); }
done
[ ${#tested[@]} -eq 0 ] || wait "${tested[@]}"
wanted sanitizer && part sanitizer 60
wanted bench && part bench 130
"$python" "$here/summary.py" "$out" "${parts[@]}"
