"""Check I8 of the simulator: the epoch cache has the first offset of each epoch."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from yak.sim.checks.epoch_cache_sound import EpochCacheSound
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, History


class _Copy(SimpleNamespace):
    """A compacted copy whose cache says that epoch 0 begins at 0, and whose first batch on disk is at 14."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def _copy() -> Copy:
    log = SimpleNamespace(epochs=SimpleNamespace(entries=[(0, 0)]))
    node = SimpleNamespace(node_id=2)
    made: Any = _Copy(log=log, epoch_starts=[(0, 14)], originals=object(), log_start=0, key="t", node=node)
    return cast("Copy", made)


def _check() -> EpochCacheSound:
    return EpochCacheSound(cast("History", SimpleNamespace(rotten={})))


def test_a_cache_that_begins_before_the_first_batch_of_a_compacted_log_is_found():
    with pytest.raises(Violation, match="epoch 0 begins at 14, the cache says 0"):
        _check().reopened(_copy(), Chain())


def test_a_crash_may_take_back_the_log_start_below_which_compaction_removed_batches():
    check, copy = _check(), _copy()
    copy.log_start = 15
    check.log_start(copy, 0)
    copy.log_start = 0
    check.reopened(copy, Chain())


def test_a_crash_may_take_back_the_log_start_at_which_the_cache_begins():
    check, copy = _check(), _copy()
    copy.log_start = 6
    check.log_start(copy, 0)
    copy.log_start, copy.log.epochs.entries = 0, [(0, 6)]
    check.reopened(copy, Chain())
    copy.log.epochs.entries = [(0, 15)]
    with pytest.raises(Violation, match="epoch 0 begins at 14, the cache says 15"):
        check.reopened(copy, Chain())
