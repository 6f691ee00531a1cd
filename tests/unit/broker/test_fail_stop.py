"""An unexpected exception in the core: it ends one connection, or the broker, by what was under way (`yak.fail_stop`)."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tests.rig import Rig, fetch_fields
from tests.unit.broker.groups_rig import GroupsRig
from tests.unit.broker.requests import begin_produce
from tests.unit.plans import Calls
from yak.broker.fetches import ConsumerFetch
from yak.core import events
from yak.errors import ErrorCode, FailStop, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.group import ClassicGroup
from yak.groups.offsets import Offsets
from yak.storage.log import Log

FETCH, METADATA, OFFSET_COMMIT = 1, 3, 8


class Bug(Exception):
    """What no code expects."""


class Watched:
    """What the bugs of a rig's broker led to."""

    def __init__(self, rig: Rig) -> None:
        self.stops: list[FailStop] = []
        self.failed: list[events.Notice] = []
        self.broker = rig.node.broker
        self._node = rig.node
        rig.node.on_fail_stop = self._stop
        rig.node.on_request_failed = self.failed.append

    def _stop(self, failure: FailStop) -> None:
        self.stops.append(failure)
        self._node.kill()


def fail(*_arguments: object, **_named: object) -> NoReturn:
    raise Bug


def breaks_after(owner: object, name: str) -> None:
    """Have this method do its work, and raise then."""
    method = getattr(owner, name)

    def broken(*arguments: object, **named: object) -> NoReturn:
        method(*arguments, **named)
        raise Bug

    setattr(owner, name, broken)


def fails_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the first call of this method of a consumer's fetch raise."""
    method, calls = getattr(ConsumerFetch, name), []

    def first_fails(self):
        calls.append(self)
        if len(calls) == 1:
            raise Bug
        return method(self)

    monkeypatch.setattr(ConsumerFetch, name, first_fails)


def begin_fetch(rig: Rig, max_wait_ms: int):
    return rig.begin(FETCH, 12, client=rig.new_client(), **fetch_fields("orders", 0, max_wait_ms=max_wait_ms))


# ------------------------------------------------------------------------------------------------------ one request


def test_handler_that_raises_ends_its_connection_and_no_other(rig: Rig) -> None:
    seen = Watched(rig)
    other = begin_fetch(rig, 1_000)
    broker = rig.node.broker
    broker._api_handlers = broker._api_handlers | {(METADATA, 4): fail}
    lost = rig.begin(METADATA, 4, client=rig.new_client(), topics=None, allow_auto_topic_creation=False)
    rig.run_for(10)
    assert lost.is_lost
    (notice,) = seen.failed
    assert (notice.fields["api"], type(notice.error), notice.is_provoked) == ("Metadata", Bug, True)
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.none
    rig.run_for(10)
    assert other.answer is not None
    assert not seen.stops


@pytest.mark.parametrize("is_woken", [False, True], ids=["at its expiry", "at its wake-up"])
def test_delayed_fetch_that_raises_leaves_others_of_that_turn_answered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_woken: bool
) -> None:
    seen = Watched(rig)
    fetches = [begin_fetch(rig, 60_000 if is_woken else 500) for _ in range(3)]
    rig.run_for(5)
    fails_once(monkeypatch, "answer" if is_woken else "on_expiration")
    if is_woken:
        assert rig.produce("orders", [b"a"]).error_code == ErrorCode.none
    rig.run_for(600)
    assert sum(fetch.is_lost for fetch in fetches) == 1
    assert all(fetch.is_done for fetch in fetches)
    assert len(seen.failed) == 1
    assert not seen.stops


def test_read_job_that_raises_closes_the_connection_of_the_request(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watched(rig)
    for value in (b"a", b"the newest batch is at hand"):
        rig.produce("orders", [value])
    rig.node.disk.cached_bytes = 0
    monkeypatch.setattr("yak.storage.reader.ReadPlan.run", fail)
    fetch = begin_fetch(rig, 0)
    rig.run_for(1_000)
    assert fetch.is_lost
    assert len(seen.failed) == 1
    assert not seen.stops


# ------------------------------------------------------------------------------------------------- replicated state


def stops(rig: Rig, seen: Watched, what: str) -> None:
    """The broker stops for `what`, and for good: no event is stepped any more."""
    rig.run_for(1_000)
    (failure,) = seen.stops
    assert failure.what == what
    assert type(failure.__cause__) is Bug
    with pytest.raises(FailStop):
        seen.broker.step(events.TurnEnd(), rig.node.now_ms)
    assert not seen.failed


def test_append_that_raises_after_its_write_stops_the_broker_and_acknowledges_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Watched(rig)
    append = Log.append

    def append_and_fail(*arguments: object) -> NoReturn:
        append(*arguments)
        raise Bug

    monkeypatch.setattr(Log, "append", append_and_fail)
    pending = begin_produce(rig, "orders", b"a")
    stops(rig, seen, "LeaderAppends.append_to_leader_log")
    assert pending.answer is None


def test_timer_that_raises_stops_the_broker(rig: Rig) -> None:
    seen = Watched(rig)
    breaks_after(rig.node.broker.metadata.lifecycle, "on_time")
    rig.run_for(1_000)
    stops(rig, seen, "TimerDue")


def test_armed_timer_that_raises_stops_the_broker(rig: Rig) -> None:
    seen = Watched(rig)
    rig.node.broker.timers.arm("planted", rig.world.now_ms + 10, fail)
    rig.run_for(20)
    stops(rig, seen, "TimerDue")


@pytest.mark.parametrize("kind", ["flush", "checkpoint", "image", "truncate", "move"])
def test_state_job_that_raises_stops_the_broker(rig: Rig, kind: events.JobKind) -> None:
    seen = Watched(rig)
    done: list[object] = []
    rig.node.broker.jobs.run(kind, Calls(fail), lambda result, error: done.append((result, error)))
    rig.node.post(events.TurnEnd())
    stops(rig, seen, f"a job: {kind}")
    assert not done


def test_job_whose_completion_raises_stops_the_broker(rig: Rig) -> None:
    seen = Watched(rig)
    rig.node.broker.jobs.run("truncate", Calls(lambda: None), fail)
    rig.node.post(events.TurnEnd())
    stops(rig, seen, "JobDone")


def test_join_that_raises_in_the_groups_state_stops_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = GroupsRig()
    seen = Watched(rig)
    monkeypatch.setattr(ClassicGroup, "prepare_rebalance", fail)
    rig.begin_join(version=3)
    stops(rig, seen, "ClassicGroup.join")


def test_offset_commit_that_raises_after_its_record_was_written_stops_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = GroupsRig()
    seen = Watched(rig)
    monkeypatch.setattr(Offsets, "put", fail)
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": 0}
    topics = [{"name": "orders", "partitions": [offset]}]
    who = {"group_id": "g", "member_id": ""}
    pending = rig.begin(OFFSET_COMMIT, 8, client=rig.new_client(), topics=topics, **who)
    stops(rig, seen, "CoordinatorRuntime.append")
    assert pending.answer is None


def test_refusal_of_a_state_change_is_no_bug() -> None:
    @changes_state
    def refuse() -> None:
        raise PeerError(ErrorCode.not_enough_replicas)

    with pytest.raises(PeerError):
        refuse()
