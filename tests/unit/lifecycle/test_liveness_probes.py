"""Liveness probes: which waiters an answer completes, how many requests that takes, and what a silent broker costs."""

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from tests.rig import Rig
from tests.unit.lifecycle.watching import HERE, LEADER, context_of, make_broker, watch_of
from yak.broker.delayed_leader_requests import LeaderRequests, leaders_of
from yak.lifecycle.failure_watch import (
    PROBE_MS_MAX,
    RECONNECT_FIRST_MS,
    RECONNECT_MS,
    FailureWatch,
    LivenessProbes,
    probe_request,
)
from yak.protocol.codec import decode_request
from yak.protocol.peer_proof import Incarnation
from yak.protocol.request_header import read_request_header

OTHER = 3


class ProbeWaiter:
    """Records its results."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def on_probed(self, node_id: int, *, lives: bool) -> None:
        assert node_id == LEADER
        self.told.append(lives)


def answer_of(number: int) -> memoryview:
    return memoryview(struct.pack(">ih", number, 0))


@pytest.fixture
def probes() -> LivenessProbes:
    broker = make_broker(LEADER)
    probes = LivenessProbes(context_of(broker), broker.peers, LEADER)
    probes.begin(7)
    return probes


def asked(probes: LivenessProbes) -> list[int]:
    """The correlation ids of the probes so far."""
    return [number for _peer_id, number in probes._peers.sent]


def test_liveness_probe_under_way_makes_a_later_waiter_wait_for_the_next(probes):
    first, second = ProbeWaiter(), ProbeWaiter()
    probes.send(first)
    probes.send(second)
    assert asked(probes) == [1]
    probes.on_answer(answer_of(1))
    assert (first.told, second.told) == ([True], [])
    assert asked(probes) == [1, 2]
    probes.on_answer(answer_of(2))
    assert second.told == [True]
    assert asked(probes) == [1, 2]


def test_liveness_probe_of_a_thousand_waiters_sends_two_requests(probes):
    crowd = [ProbeWaiter() for _ in range(1_000)]
    for each in crowd:
        probes.send(each)
    probes.on_answer(answer_of(1))
    probes.on_answer(answer_of(2))
    assert all(each.told == [True] for each in crowd)
    assert asked(probes) == [1, 2]


def test_liveness_probe_on_a_lost_connection_ends_without_proof_of_life(probes):
    first, second = ProbeWaiter(), ProbeWaiter()
    probes.send(first)
    probes.send(second)
    probes.end()
    assert (first.told, second.told) == ([False], [False])
    assert not probes.is_connected
    assert not probes.is_prompt()


@pytest.mark.parametrize("frame", [b"", b"\0\0", struct.pack(">i", 2)])
def test_liveness_probe_ignores_other_answers(probes, frame):
    waiter = ProbeWaiter()
    probes.send(waiter)
    probes.on_answer(memoryview(frame))
    assert waiter.told == []


def test_liveness_probe_ignores_the_answer_of_an_earlier_connection(probes):
    probes.send(ProbeWaiter())
    probes.end()
    probes.begin(8)
    waiter = ProbeWaiter()
    probes.send(waiter)
    probes.on_answer(answer_of(1))
    assert waiter.told == []
    probes.on_answer(answer_of(2))
    assert waiter.told == [True]


def test_liveness_probe_overdue_is_not_prompt_until_the_broker_answers(probes):
    probes.send(ProbeWaiter())
    probes._context.clock.now_ms += PROBE_MS_MAX - 1
    assert probes.is_prompt()
    probes._context.clock.now_ms += 1
    assert not probes.is_prompt()
    probes.on_answer(answer_of(1))
    assert probes.is_prompt()


def test_liveness_probe_forgets_a_waiter_that_left(probes):
    first, second = ProbeWaiter(), ProbeWaiter()
    probes.send(first)
    probes.send(second)
    probes.forget(first)
    probes.forget(second)
    probes.on_answer(answer_of(1))
    assert first.told == second.told == []
    assert asked(probes) == [1]


def test_probe_request_is_a_valid_api_versions_request():
    frame = probe_request(3, 12_345)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    view = memoryview(frame)[4:].toreadonly()
    header = read_request_header(view)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 3, 3, "yak-watch")
    request = decode_request(18, 3, view, header.body_offset)
    assert (request.client_software_name, request.client_software_version) == ("yak-watch", "12345")


def as_broker(rig: Rig) -> None:
    """Let the rig's client pass for another broker that has proven itself."""
    for connection in rig.node.broker.connections.values():
        connection.proven = Incarnation(2, 7, "boot-2")


def test_a_liveness_probe_of_a_client_is_answered_at_once():
    rig = Rig()
    rig.run_for(1_000)
    offset = rig.node.broker.image.offset
    software = {"client_software_name": "yak-watch", "client_software_version": str(offset + 1)}
    pending = rig.begin(18, 3, **software)
    rig.run_for(100)
    assert pending.answer.error_code == 0


def test_liveness_probe_of_a_broker_is_answered_once_the_image_is_as_new():
    rig = Rig()
    rig.run_for(1_000)
    offset = rig.node.broker.image.offset
    software = {"client_software_name": "yak-watch"}
    assert rig.ask(18, 3, **software, client_software_version=str(offset)).error_code == 0
    as_broker(rig)
    behind = rig.begin(18, 3, **software, client_software_version=str(offset + 1))
    rig.run_for(100)
    assert not behind.is_done
    rig.client = rig.new_client()
    rig.create_topic("orders")
    rig.run_for(5)
    assert behind.answer.error_code == 0


@pytest.mark.parametrize("version", ["9" * 19, "9" * 5_000, "1.2"])
def test_liveness_probe_with_an_unreachable_offset_times_out(version, monkeypatch):
    monkeypatch.setattr("yak.broker.delayed_leader_requests.CATCH_UP_MS_MAX", 500)
    rig = Rig()
    rig.ask(18, 0)
    as_broker(rig)
    pending = rig.begin(18, 3, client_software_name="yak-watch", client_software_version=version)
    rig.run_for(600)
    assert pending.answer.error_code == 0


# ------------------------------------------------------------------------------------------------ with the watch


def watching() -> tuple[Any, FailureWatch]:
    """A watch that is connected to both other brokers, and was answered by both."""
    broker = make_broker(LEADER, OTHER)
    broker.failure_watch = watch = watch_of(broker)
    assert broker.peers.opened == 2
    for peer_id in (1, 2):
        watch.on_connected(peer_id)
        watch.on_proven(peer_id)
        watch.on_answer(peer_id, answer_of(1))
    broker.now_ms += RECONNECT_MS
    return broker, watch


def test_suspected_broker_is_cleared_by_an_answer_and_not_by_an_accepted_connection():
    """The kernel goes on to take connections for a process that is being ended."""
    broker, watch = watching()
    watch.on_lost(1, "closed", "")
    assert broker.suspected_brokers.has(LEADER)
    watch.on_connected(3)
    watch.on_proven(3)
    assert broker.suspected_brokers.has(LEADER)
    watch.on_answer(3, answer_of(2))
    assert not broker.suspected_brokers.has(LEADER)


def test_suspected_broker_is_cleared_by_its_next_answer():
    broker, watch = watching()
    watch.suspect(LEADER)
    assert broker.suspected_brokers.has(LEADER)
    watch.on_answer(1, answer_of(2))
    assert not broker.suspected_brokers.has(LEADER)


def test_suspected_broker_is_not_cleared_by_an_earlier_answer():
    broker, watch = watching()
    (probes,) = watch.probes([LEADER])
    probes.send(ProbeWaiter())
    watch.suspect(LEADER)
    watch.on_answer(1, answer_of(2))
    assert broker.suspected_brokers.has(LEADER)
    watch.on_answer(1, answer_of(3))
    assert not broker.suspected_brokers.has(LEADER)


def test_failure_watch_declares_a_broker_dead_only_at_the_controller():
    broker, watch = watching()
    watch.on_lost(2, "closed", "")
    watch.on_lost(3, "refused", "")
    assert broker.timers.next_due() == broker.now_ms + RECONNECT_FIRST_MS
    assert broker.suspected_brokers.has(OTHER)
    broker.image.controller_id = HERE
    watch.image_changed(SimpleNamespace(brokers_changed={}, controller_changed=True))  # type: ignore[arg-type]
    watch.on_lost(4, "refused", "")
    broker.now_ms = broker.timers.next_due()
    broker.timers.run_due(broker.now_ms)
    watch.on_lost(5, "refused", "")
    assert broker.dead == [(OTHER, 5)]


def test_failure_watch_probes_only_other_connected_brokers():
    _broker, watch = watching()
    assert [probes.node_id for probes in watch.probes([HERE, -1, OTHER, 99])] == [OTHER]
    watch.on_lost(2, "timeout", "")
    assert watch.probes([OTHER]) == []


def topics_led_by(*leaders: int) -> list[Any]:
    return [SimpleNamespace(partitions=[SimpleNamespace(leader=leader) for leader in leaders])]


def leader_requests(broker: Any) -> LeaderRequests:
    return LeaderRequests(context_of(broker), broker.suspected_brokers, broker.failure_watch, broker.purgatory)


def test_metadata_for_own_partitions_sends_no_probe():
    broker, _watch = watching()
    before = len(broker.peers.sent)
    answer: Any = object()
    outcome = leader_requests(broker).answer_when_decided(
        SimpleNamespace(),  # type: ignore[arg-type]
        lambda: leaders_of(topics_led_by(HERE, -1)),
        lambda: answer,
    )
    assert outcome is answer
    assert len(broker.peers.sent) == before


def test_metadata_probes_each_leader_once():
    broker, watch = watching()
    finished: list[Any] = []
    broker.purgatory.complete = finished.append
    before = len(broker.peers.sent)
    later = leader_requests(broker).answer_when_decided(
        SimpleNamespace(),  # type: ignore[arg-type]
        lambda: leaders_of(topics_led_by(LEADER, OTHER, HERE, LEADER, OTHER)),
        lambda: None,
    )
    assert broker.peers.sent[before:] == [(1, 2), (2, 2)]
    watch.on_answer(1, answer_of(2))
    assert finished == []
    watch.on_answer(2, answer_of(2))
    assert finished == [later.operation]  # type: ignore[union-attr]
