"""What one broker's log may be after a restart."""

from types import SimpleNamespace

import pytest

from yak.sim.checks.restart_keeps_records import RestartKeepsRecords
from yak.sim.deliveries import Violation
from yak.sim.history import Chain


def chain(*crcs: int) -> Chain:
    """Batches of one record each, from offset 0 on."""
    made = Chain()
    for offset, crc in enumerate(crcs):
        made.add(offset, offset + 1, 0, crc)
    return made


def reopened(after: Chain, before: Chain) -> None:
    copy = SimpleNamespace(chain=after, end=after.end, originals=None)
    RestartKeepsRecords().reopened(copy, before)  # type: ignore[arg-type]


@pytest.mark.parametrize("crcs", [(), (1, 2), (1, 2, 3), (1, 2, 3, 4)], ids=len)
def test_log_after_a_restart_may_have_lost_its_end_or_have_an_append_that_was_not_observed(crcs):
    reopened(chain(*crcs), chain(1, 2, 3))


@pytest.mark.parametrize("crcs", [(1, 9), (1, 9, 3, 4), (9,)], ids=str)
def test_log_after_a_restart_with_other_batches_is_a_violation(crcs):
    with pytest.raises(Violation, match="differs at"):
        reopened(chain(*crcs), chain(1, 2, 3))
