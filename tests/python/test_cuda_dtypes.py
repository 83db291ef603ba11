"""Arrays of dtypes that no call takes, in the memory of a device, on the stand-ins for CUDA's libraries."""

import pytest

from test_cuda_arrays import run

pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")


def test_arrays_of_any_dtype() -> None:
    """What no call takes comes and goes with the code that DLPack's header has for it, in both of its forms."""
    run("""
import ml_dtypes
# DLPack's enum of codes: 0 integers, 1 those without sign, 2 floats, 4 bfloat16, 5 complex numbers, 6 booleans.
codes = {"bool": (6, 8), "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8)}
codes |= {"uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64), "float16": (2, 16), "float32": (2, 32)}
codes |= {"float64": (2, 64), "bfloat16": (4, 16), "complex64": (5, 64), "complex128": (5, 128)}
stream = dev.stream()
for name, code in codes.items():
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    for shape in ((), (5, 3), (0, 2)):
        x = (3 * rng.random(shape)).astype(dtype)
        kinds = [lambda x: Lender(x, versioned=False), Lender] + ([Interface] if name != "bfloat16" else [])
        for lent in (kind(x) for kind in kinds):
            array = mc.asarray(lent)
            assert (array.dtype, array.shape) == (dtype, shape) and f"({name} of shape" in repr(array)
            np.testing.assert_array_equal(array.numpy(), x, strict=True)
            for version, copied in ((None, None), ((1, 0), True)):
                managed, give_back = dev.taken(array.__dlpack__(max_version=version, copy=copied, stream=stream))
                tensor = managed.tensor
                assert (tensor.code, tensor.bits, tensor.lanes, tensor.shape[: len(shape)]) == (*code, 1, list(shape))
                if x.size:
                    found = dev.read(tensor.data, shape, dtype, 0, stream)
                    np.testing.assert_array_equal(found, x, strict=True)
                give_back()
            if name != "bfloat16":
                assert array.__cuda_array_interface__["typestr"] == dtype.str
            elif shape == (5, 3):
                assert not hasattr(array, "__cuda_array_interface__")
    array = mc.asarray(Lender(x := np.arange(12).reshape(4, 3).astype(dtype)))
    np.testing.assert_array_equal(array[2].numpy(), x[2], strict=True)
    np.testing.assert_array_equal(array.reshape((2, 6)).numpy(), x.reshape(2, 6), strict=True)
# Flags of axes are read; int8 is no dtype of indices.
axes = mc.asarray(Interface(np.array([True, True, True])))
all_close(mc.ewald_summation(Interface(r), q, h, pbc=axes), mn.ewald_summation(r, q, h, method="list"))
four = Lender(np.zeros(4))
four.block.dtype = np.dtype("f2,f2")
with refused(TypeError, "`x`", "real or complex numbers", "DLPack's type 4 of 32 bits"):
    mc.asarray(four)
madelung.check_device()
""")
