"""Results of several terms in `madelung.cuda`, on the stand-ins for CUDA's libraries."""

import pytest

from test_cuda_arrays import run

pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")


def test_results_are_joined_where_they_lie() -> None:
    """What they give is added and put together on the device, and so are cells."""
    run("""
from madelung.cuda._framework import Cuda
f = Cuda(mc._arrays.stream_of(dev.stream(), 0))
for dtype in (np.float32, np.float64):
    a, b, c = (rng.normal(size=(5, 3)).astype(dtype) for _ in range(3))
    there = [f.uploaded(x) for x in (a, b, c)]
    waits = dev.calls("cuStreamSynchronize"), dev.calls("cuMemcpyDtoHAsync_v2")
    joined, rows, added = f.joined(there), f.stacked(there, 0), f.added(there)
    both, copies = f.added(there[:2]), [f.repeated(there[0], n) for n in (0, 1, 2, 7)]
    cell = f.no_cell(there[0])
    assert waits == (dev.calls("cuStreamSynchronize"), dev.calls("cuMemcpyDtoHAsync_v2"))
    for found, expected in (
        (joined, np.concatenate([a, b, c])), (rows, np.stack([a, b, c])), (both, a + b), (cell, np.eye(3, dtype=dtype)),
        (added, (a.astype(float) + b + c).astype(dtype)), *zip(copies[1:], (np.stack([a] * n) for n in (1, 2, 7))),
        (f.stacked(there), np.stack([a, b, c], 1)), *zip(f.channels(there[0]), a.T), (f.added(there[:1]), a),
    ):
        np.testing.assert_array_equal(found.numpy(), expected, strict=True)
assert f.added([f.filled((0, 3), float, 0.0)] * 2).shape == (0, 3)
madelung.check_device()
""")
