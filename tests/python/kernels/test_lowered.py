"""One meaning of kernels in Python and in the kernel language: both are lowered to the same values and statements."""

import difflib

import pytest
from by_chance import Author

from madelung import _native


@pytest.mark.parametrize("first", range(0, 240, 24))
def test_kernels_written_by_chance_in_both_languages(first: int) -> None:
    """Down to the number of every value: the text of the lowered kernels is equal."""
    for seed in range(first, first + 24):
        author = Author(seed)
        (found,), (expected,) = map(_native.lowered_kernels, (author.kernel().source, author.source))
        differences = difflib.unified_diff(expected.splitlines(), found.splitlines(), lineterm="", n=1)
        assert found == expected, "\n".join([author.text, author.source, *differences])
