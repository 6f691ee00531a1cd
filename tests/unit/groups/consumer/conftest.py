"""What the tests of consumer groups share: a coordinator of one group, and one topic of four partitions."""

import pytest

from tests.unit.groups.consumer.group_model import Coordinator, Topics


@pytest.fixture
def one() -> Coordinator:
    return Coordinator(Topics(t=4))
