"""Signs of life: who is told of which answer, how many questions that takes, and what a silent broker costs."""

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from yak.broker.delayed_leader_requests import answer_when_decided
from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.core.timers import Timers
from yak.lifecycle.failure_watch import (
    PULSE_MS_MAX,
    RECONNECT_FIRST_MS,
    RECONNECT_MS,
    FailureWatch,
    Pulse,
    question,
)
from yak.protocol.codec import decode_request, read_request_header
from yak.protocol.peer_proof import Incarnation
from yak.sim.rig import Rig

HERE, LEADER, OTHER = 2, 1, 3


class FakePeers:
    """Keeps what is opened and sent."""

    def __init__(self) -> None:
        self.opened = 0
        self.sent: list[tuple[int, int]] = []

    def open(self, info: BrokerInfo, owner: Any) -> int:
        self.opened += 1
        return self.opened

    def send(self, peer_id: int, parts: Any) -> None:
        frame = b"".join(parts)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        self.sent.append((peer_id, int.from_bytes(frame[8:12], "big", signed=True)))

    def close(self, peer_id: int) -> None: ...


class Hearer:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def heard(self, node_id: int, *, lives: bool) -> None:
        assert node_id == LEADER
        self.told.append(lives)


def answer_of(number: int) -> memoryview:
    return memoryview(struct.pack(">ih", number, 0))


def make_broker() -> Any:
    infos = {
        node_id: BrokerInfo(node_id, 5, "boot", ("a",), "h", 9092, None, "leader", BrokerState.ACTIVE)
        for node_id in (LEADER, HERE, OTHER)
    }
    return SimpleNamespace(
        node_id=HERE,
        now_ms=1_000,
        image=SimpleNamespace(controller_id=LEADER, brokers=infos, offset=7),
        peers=FakePeers(),
        purgatory=SimpleNamespace(),
        dice=SimpleNamespace(below=lambda bound: 0),
        notice=lambda *words, **fields: None,
        dead=[],
        timers=Timers(),
    )


def context_of(broker: Any) -> Any:
    return SimpleNamespace(clock=broker, image=broker.image, timers=broker.timers, notice=broker.notice)


def watch_of(broker: Any) -> FailureWatch:
    return FailureWatch(
        context_of(broker),
        broker.node_id,
        broker.peers,
        broker.dice,
        broker.suspects,
        lambda node_id, _epoch: broker.dead.append(node_id),
    )


@pytest.fixture
def pulse() -> Pulse:
    broker = make_broker()
    pulse = Pulse(context_of(broker), broker.peers, LEADER)
    pulse.begin(7)
    return pulse


def asked(pulse: Pulse) -> list[int]:
    """The numbers of the questions so far."""
    return [number for _peer_id, number in pulse._peers.sent]


def test_who_comes_while_a_question_is_under_way_waits_for_the_next_one(pulse):
    first, second = Hearer(), Hearer()
    pulse.feel(first)
    pulse.feel(second)
    assert asked(pulse) == [1]
    pulse.on_answer(answer_of(1))
    assert (first.told, second.told) == ([True], [])
    assert asked(pulse) == [1, 2]
    pulse.on_answer(answer_of(2))
    assert second.told == [True]
    assert asked(pulse) == [1, 2]


def test_a_thousand_that_come_at_once_cost_two_questions(pulse):
    crowd = [Hearer() for _ in range(1_000)]
    for each in crowd:
        pulse.feel(each)
    pulse.on_answer(answer_of(1))
    pulse.on_answer(answer_of(2))
    assert all(each.told == [True] for each in crowd)
    assert asked(pulse) == [1, 2]


def test_a_lost_connection_is_told_to_all_and_proves_nothing(pulse):
    first, second = Hearer(), Hearer()
    pulse.feel(first)
    pulse.feel(second)
    pulse.end()
    assert (first.told, second.told) == ([False], [False])
    assert not pulse.is_connected
    assert not pulse.is_prompt()


@pytest.mark.parametrize("frame", [b"", b"\0\0", struct.pack(">i", 2)])
def test_what_is_not_the_answer_counts_for_nothing(pulse, frame):
    hearer = Hearer()
    pulse.feel(hearer)
    pulse.on_answer(memoryview(frame))
    assert hearer.told == []


def test_the_answer_to_an_earlier_connection_is_not_the_answer_to_this_one(pulse):
    pulse.feel(Hearer())
    pulse.end()
    pulse.begin(8)
    hearer = Hearer()
    pulse.feel(hearer)
    pulse.on_answer(answer_of(1))
    assert hearer.told == []
    pulse.on_answer(answer_of(2))
    assert hearer.told == [True]


def test_a_silent_broker_is_waited_for_once_and_again_when_it_answered(pulse):
    pulse.feel(Hearer())
    pulse._context.clock.now_ms += PULSE_MS_MAX - 1
    assert pulse.is_prompt()
    pulse._context.clock.now_ms += 1
    assert not pulse.is_prompt()
    pulse.on_answer(answer_of(1))
    assert pulse.is_prompt()


def test_who_left_is_told_nothing(pulse):
    first, second = Hearer(), Hearer()
    pulse.feel(first)
    pulse.feel(second)
    pulse.forget(first)
    pulse.forget(second)
    pulse.on_answer(answer_of(1))
    assert first.told == second.told == []
    assert asked(pulse) == [1]


def test_the_question_is_one_that_any_broker_understands():
    frame = question(3, 12_345)
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


def test_an_answer_waits_until_we_know_as_much_as_who_asks():
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
def test_a_version_that_no_offset_will_reach_keeps_nobody_for_ever(version, monkeypatch):
    monkeypatch.setattr("yak.broker.delayed_leader_requests.CATCH_UP_MS_MAX", 500)
    rig = Rig()
    rig.ask(18, 0)
    as_broker(rig)
    pending = rig.begin(18, 3, client_software_name="yak-watch", client_software_version=version)
    rig.run_for(600)
    assert pending.answer.error_code == 0


# ------------------------------------------------------------------------------------------------ with the watch


class FakeSuspects:
    """Who is suspected, without time."""

    def __init__(self) -> None:
        self.held: dict[int, None] = {}

    def add(self, node_id: int) -> None:
        self.held[node_id] = None

    def clear(self, node_id: int) -> None:
        self.held.pop(node_id, None)

    def has(self, node_id: int) -> bool:
        return node_id in self.held

    def lead(self, topics: Any) -> bool:
        return any(info.leader in self.held for topic in topics for info in topic.partitions)


def watching() -> tuple[Any, FailureWatch]:
    """A watch that is connected to both other brokers, and was greeted by both."""
    broker = make_broker()
    broker.suspects = FakeSuspects()
    broker.failure_watch = watch = watch_of(broker)
    watch.image_changed(SimpleNamespace(brokers_changed={1}, controller_changed=True))  # type: ignore[arg-type]
    assert broker.peers.opened == 2
    for peer_id in (1, 2):
        watch.on_connected(peer_id)
        watch.on_proven(peer_id)
        watch.on_answer(peer_id, answer_of(1))
    broker.now_ms += RECONNECT_MS
    return broker, watch


def test_a_connection_that_is_taken_does_not_lift_the_suspicion_but_an_answer_does():
    """The kernel goes on to take connections for a process that is being ended."""
    broker, watch = watching()
    watch.on_lost(1, "closed", "")
    assert broker.suspects.has(LEADER)
    watch.on_connected(3)
    watch.on_proven(3)
    assert broker.suspects.has(LEADER)
    watch.on_answer(3, answer_of(2))
    assert not broker.suspects.has(LEADER)


def test_a_broker_that_only_cut_another_connection_is_cleared_by_its_next_answer():
    broker, watch = watching()
    watch.suspect(LEADER)
    assert broker.suspects.has(LEADER)
    watch.on_answer(1, answer_of(2))
    assert not broker.suspects.has(LEADER)


def test_an_answer_that_left_before_the_cut_clears_nobody():
    broker, watch = watching()
    (pulse,) = watch.pulses([LEADER])
    pulse.feel(Hearer())
    watch.suspect(LEADER)
    watch.on_answer(1, answer_of(2))
    assert broker.suspects.has(LEADER)
    watch.on_answer(1, answer_of(3))
    assert not broker.suspects.has(LEADER)


def test_a_dead_broker_is_for_the_controller_to_declare_dead():
    broker, watch = watching()
    watch.on_lost(2, "closed", "")
    watch.on_lost(3, "refused", "")
    assert broker.timers.next_due() == broker.now_ms + RECONNECT_FIRST_MS
    assert broker.suspects.has(OTHER)
    broker.image.controller_id = HERE
    watch.image_changed(SimpleNamespace(brokers_changed={}, controller_changed=True))  # type: ignore[arg-type]
    watch.on_lost(4, "refused", "")
    broker.now_ms = broker.timers.next_due()
    broker.timers.run_due(broker.now_ms)
    watch.on_lost(5, "refused", "")
    assert broker.dead == [OTHER]


def test_only_connected_brokers_are_waited_for_and_never_we_ourselves():
    _broker, watch = watching()
    assert [pulse.node_id for pulse in watch.pulses([HERE, -1, OTHER, 99])] == [OTHER]
    watch.on_lost(2, "timeout", "")
    assert watch.pulses([OTHER]) == []


def topics_led_by(*leaders: int) -> list[Any]:
    return [SimpleNamespace(partitions=[SimpleNamespace(leader=leader) for leader in leaders])]


def test_who_asks_for_what_we_lead_is_answered_at_once_without_a_question():
    broker, _watch = watching()
    before = len(broker.peers.sent)
    answer: Any = object()
    outcome = answer_when_decided(broker, SimpleNamespace(), lambda: topics_led_by(HERE, -1), lambda: answer)  # type: ignore[arg-type]
    assert outcome is answer
    assert len(broker.peers.sent) == before


def test_each_leader_is_asked_once_however_much_it_leads():
    broker, watch = watching()
    finished: list[Any] = []
    broker.purgatory.complete = finished.append
    before = len(broker.peers.sent)
    later = answer_when_decided(
        broker,
        SimpleNamespace(),  # type: ignore[arg-type]
        lambda: topics_led_by(LEADER, OTHER, HERE, LEADER, OTHER),
        lambda: None,
    )
    assert broker.peers.sent[before:] == [(1, 2), (2, 2)]
    watch.on_answer(1, answer_of(2))
    assert finished == []
    watch.on_answer(2, answer_of(2))
    assert finished == [later.operation]  # type: ignore[union-attr]
