"""What tests of refusals share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from yak.errors import YakError


@contextmanager
def raises_error(kind: type[YakError], code: str, **how: Any) -> Iterator[pytest.ExceptionInfo[YakError]]:
    """`pytest.raises` for an error of YAK, which must have this code."""
    with pytest.raises(kind, **how) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
