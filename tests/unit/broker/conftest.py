"""The broker of most tests of one broker."""

import pytest

from tests.rig import Rig


@pytest.fixture
def rig() -> Rig:
    """With a topic `orders` of two partitions."""
    rig = Rig()
    rig.create_topic("orders", partitions=2)
    return rig
