"""Points around queries in `madelung.cuda`, on the stand-ins for CUDA's libraries."""

import pytest

from test_cuda_arrays import run

pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")


def test_points_around_queries_are_those_of_numpy() -> None:
    """Nearest points, all within a radius, features around, in any cells, without waiting where sizes are known."""
    run("""
points, queries = 3.0 * rng.random((30, 3)), 3.0 * rng.random((7, 3))
x, of = rng.normal(size=(30, 5)), np.repeat([0, 1], 15).astype(np.int32)
of_queries = np.array([0] * 4 + [1] * 3, np.int32)
batch = {"query_batch_idx": of_queries, "batch_idx": of, "cell": np.stack([h, 1.1 * h])}
shared, slab = {**batch, "cell": h}, {"cell": h, "pbc": (True, True, False)}
def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b) if b.dtype == np.int32 else close(a, b)
for more in ({}, {"cell": h}, slab, batch, shared, {**batch, "pbc": np.array([[True] * 3, [False, True, False]])}):
    given = there({name: value for name, value in more.items() if name != "pbc"})
    given |= {name: value for name, value in more.items() if name == "pbc"}
    both = {"return_shifts": True, "return_vectors": True}
    same(mc.knn(Interface(queries), Interface(points), 4, **given, **both),
         mn.knn(queries, points, 4, **more, **both))
    same(mc.radius(Interface(queries), Interface(points), 1.2, **given, **both),
         mn.radius(queries, points, 1.2, **more, **both))
    for name, size in (("knn_aggregate", 4), ("radius_aggregate", 1.2)):
        found = getattr(mc, name)(Interface(queries), Interface(points), Interface(x), size, 0.6, **given)
        close(found, getattr(mn, name)(queries, points, x, size, 0.6, **more))
order = mc.spatial_order(Interface(points))
np.testing.assert_array_equal(order.numpy(), mn.spatial_order(points))
q2, r2, x2, sigma, h2 = (mc.asarray(y) for y in (queries, points, x, np.array([0.6]), h))
madelung.check_device()
waits = dev.calls("cuStreamSynchronize")
indices, distances = mc.knn(q2, r2, 4, h2)
mc.knn(q2, r2, 4)
ptr, others, lengths = mc.radius(q2, r2, 1.2, h2, capacity=100)
means = mc.radius_aggregate(q2, r2, x2, 1.2, sigma, h2, max_neighbors=20)
assert dev.calls("cuStreamSynchronize") == waits
close(means, mn.radius_aggregate(queries, points, x, 1.2, 0.6, h))
ptr_, others_, lengths_ = mn.radius(queries, points, 1.2, h)
np.testing.assert_array_equal(ptr.numpy(), ptr_)
np.testing.assert_array_equal(others.numpy(), np.pad(others_, (0, 100 - len(others_)), constant_values=30))
madelung.check_device()
# What does not fit says so.
assert np.isnan(mc.radius_aggregate(q2, r2, x2, 1.2, sigma, max_neighbors=1).numpy()).all()
with refused(ValueError, "max_neighbors", "room for all that there is"):
    madelung.check_device()
with refused(ValueError, "queries"):
    mc.radius(Interface(np.full((3, 3), np.nan)), r2, 1.2)
assert np.isnan(mc.knn(q2, r2, 31)[1].numpy()).all()
with refused(ValueError, "k`: expected no more than there are points"):
    madelung.check_device()
""")
