"""What a test expects of a request that is refused."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from yak.errors import ErrorCode, PeerError


@contextmanager
def refused(code: ErrorCode, words: str = "") -> Iterator[None]:
    with pytest.raises(PeerError) as raised:
        yield
    assert raised.value.error_code is code
    assert words in raised.value.message
