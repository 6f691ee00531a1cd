"""A classic group with the settings of a test."""

import pytest

from tests.unit.groups.classic.rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
