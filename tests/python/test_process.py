"""Threads, forks and the environment: the same bits wherever a call runs."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import madelung
from conftest import CASES, required
from madelung.numpy import ewald_summation, neighbor_list

WATER = CASES["water_801"].system


def work(_=None):
    energies, forces = ewald_summation(*WATER, accuracy=1e-6, compute_forces=True)
    pairs, _, _ = neighbor_list(WATER[0], 6.0, WATER[2])
    return energies.tobytes() + forces.tobytes() + pairs.tobytes()


def test_two_threads_at_once_give_the_same_bits():
    expected = work()
    results = []
    threads = [threading.Thread(target=lambda: results.extend(work() for _ in range(5))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 10
    assert all(result == expected for result in results)


def test_other_threads_run_during_a_call():
    """A call of a tenth of a second or more must not keep the interpreter to itself."""
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    ewald_summation(*WATER, accuracy=1e-13, compute_forces=True)
    end = time.perf_counter()
    done.set()
    ticker.join()
    during = sum(start < t < end for t in ticks)
    assert during >= 0.1 * (end - start) / 0.005, f"{during} ticks in {end - start:.3f} s"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_computes_too():
    """Threads of the parent do not exist in its child; joining or using them would hang."""
    expected = work()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(work, range(4)).get(timeout=60) == [expected] * 4
    assert work() == expected


@pytest.mark.parametrize("environment", [{"MADELUNG_NUM_THREADS": "1"}, {"MADELUNG_NUM_THREADS": "3"}])
def test_any_number_of_threads_gives_the_same_bits(environment):
    code = "import hashlib, test_process; print(hashlib.sha256(test_process.work()).hexdigest())"
    here = os.path.dirname(os.path.abspath(__file__))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=here,
            env={**os.environ, **setting},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for setting in ({}, environment)
    }
    assert len(outputs) == 1


def test_a_thread_count_that_is_none_is_reported_once():
    code = "import test_process; test_process.work(); test_process.work()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=os.path.dirname(os.path.abspath(__file__)),
        env={**os.environ, "MADELUNG_NUM_THREADS": "two"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("`MADELUNG_NUM_THREADS`: expected a number of threads (0: all), got `two`") == 1


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_narrower_lanes_agree(isa):
    code = "import numpy, sys, test_process; sys.stdout.buffer.write(test_process.forces())"
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env={**os.environ, "MADELUNG_ISA": isa},
        capture_output=True,
        check=True,
    )
    found, expected = np.frombuffer(done.stdout), np.frombuffer(forces())
    assert np.sqrt(np.mean((found - expected) ** 2)) < 1e-12 * np.sqrt(np.mean(expected**2))


def forces():
    return ewald_summation(*WATER, accuracy=1e-6, compute_forces=True)[1].tobytes()


def test_results_keep_their_memory():
    """Large results lie in memory of the library, which gets it back with the last array in it."""
    rng = np.random.default_rng(1)
    sites = np.stack(np.meshgrid(*[np.arange(16)] * 3, indexing="ij"), -1).reshape(-1, 3)
    positions = 2.2 * (sites + 0.5 + 0.3 * rng.random(sites.shape))
    charges = 1.0 - 2.0 * (sites.sum(axis=1) % 2)

    def forces(scale):
        return ewald_summation(positions, scale * charges, 35.2 * np.eye(3), accuracy=1e-2, compute_forces=True)[1]

    first = forces(1.0)
    expected, part = first.copy(), first[::2, 1]
    assert not np.array_equal(forces(0.5), expected)
    assert np.array_equal(first, expected)
    del first
    written = forces(0.5)
    written[:] = 7.0
    assert np.array_equal(part, expected[::2, 1])
    del part, written
    assert np.array_equal(forces(1.0), expected)


# A call that takes a second and more where nothing stops it, and a signal that comes while it runs.
INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import madelung
import madelung.numpy as m

g = np.random.default_rng(0)
n, length = 20_000, 58.0
r, q, h = g.random((n, 3)) * length, np.tile([1.0, -1.0], n // 2), length * np.eye(3)
small = r[:100], q[:100], h
madelung.set_num_threads(int(sys.argv[2]))
expected = m.ewald_summation(*small)
if sys.argv[1] == "list":
    many = g.random((300_000, 3)) * 144.0
    call = lambda: m.neighbor_list(many, 12.5, 144.0 * np.eye(3), True)
elif sys.argv[1] == "forces":
    call = lambda: m.ewald_reciprocal_space(r, q, h, 0.5, 9.0, compute_forces=True)
else:
    import torch
    import madelung.torch as mt
    r, q, h = map(torch.from_numpy, (r, q, h))
    if sys.argv[1] == "torch":
        call = lambda: mt.ewald_reciprocal_space(r, q, h, 0.5, 9.0)
    else:
        waves = mt.generate_miller_indices(h, 9.0)
        call = mt.ewald_reciprocal_space(
            r[:20].requires_grad_(), q[:20], h, 0.5, miller_indices=waves[0].repeat(100, 1),
            miller_batch_idx=waves[1].repeat(100),
        ).sum().backward

def interrupt():
    time.sleep(0.1)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

sent = []
# Shells start jobs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
try:
    call()
    for _ in range(1_000):
        pass  # Behind a framework's own error the interpreter raises its exception here.
except (KeyboardInterrupt, RuntimeError) as error:
    took = time.perf_counter() - sent[0]
    try:
        time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    print(f"{type(error).__name__} after {took:.2f} s")
else:
    print("the call ended by itself")
assert (m.ewald_summation(*small) == expected).all()
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["list", "forces", "torch", "backward"])
def test_calls_can_be_interrupted(kind, threads):
    if kind in ("torch", "backward"):
        required("torch")
    words = [sys.executable, "-c", INTERRUPTED, kind, str(threads)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    # A few tenths of a second on an idle machine; the call as a whole takes far longer.
    assert " after " in done.stdout, done.stdout
    print(done.stdout)


def test_the_number_of_threads():
    before = madelung.get_num_threads()
    expected = forces()
    try:
        for threads in (1, 3, 2, before + 4):
            madelung.set_num_threads(threads)
            assert madelung.get_num_threads() == threads
            assert forces() == expected
    finally:
        madelung.set_num_threads(before)
    for wrong, kind in ((0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError), (True, TypeError)):
        with pytest.raises(kind, match="`threads`"):
            madelung.set_num_threads(wrong)


@pytest.mark.parametrize("name", ["MADELUNG_NUM_THREADS", "MADELUNG_ISA", "MADELUNG_KEEP_BYTES"])
def test_words_that_the_environment_does_not_have_are_reported(name):
    program = "import test_process; print(test_process.forces().hex())"
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, name: "abc"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == forces().hex()
    assert done.stderr.count(f"`{name}`: expected ") == 1 and "got `abc`" in done.stderr
