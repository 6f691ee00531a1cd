"""The pure parts of a chaos run: the schedule, what records say, the report, the picture, and what a recorder keeps."""

import socket
import threading
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.errors import UsageError
from yak.ids import TopicPartition
from yak.local.chaos import readers
from yak.local.chaos.liveness import LivenessReport, Violation
from yak.local.chaos.nemesis import InjectedFault
from yak.local.chaos.recorder import Recorder, decode, encode, value_of
from yak.local.chaos.report import ChaosReport, draw, store_alone_costs_nothing, unavailability
from yak.local.chaos.schedule import BY_NAME, KINDS, FaultKind, PlannedFault, parse_faults, plan
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import UNREADABLE, Final, History, Outcome, Poll, Send, Txn, run
from yak.sim.history_checker.report import check_history

NODES = (1, 2, 3)


def acked(*times: float, partition: str = "t-0") -> History:
    history = History()
    for number, at in enumerate(times):
        history.add(Send("w", partition, number, at - 0.01, at, Outcome.OK, number))
    return history


def injected(kind: str, began: float, repaired: float | None, note: str = "") -> InjectedFault:
    return InjectedFault(PlannedFault(1, kind, began, 1.0, (1,)), began, repaired, note)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(5, 600), st.sets(st.sampled_from(sorted(BY_NAME)), min_size=1))
def test_a_seed_plans_the_same_faults_and_none_gets_in_anothers_way(seed, duration, chosen):
    kinds = [kind for kind in KINDS if kind.name in chosen]
    planned = plan(seed, kinds, NODES, duration)
    assert planned == plan(seed, kinds, NODES, duration)
    busy: dict[str, float] = {}
    for fault in planned:
        kind = BY_NAME[fault.kind]
        assert kind in kinds
        assert 0 < fault.at_s < duration
        assert kind.seconds[0] <= fault.for_s <= kind.seconds[1]
        assert set(fault.nodes) <= set(NODES)
        assert len(set(fault.nodes)) == len(fault.nodes)
        for thing in [f"node-{node}" for node in fault.nodes] if kind.touches == "node" else [kind.touches]:
            assert busy.get(thing, 0.0) < fault.at_s
            busy[thing] = fault.end_s


def test_seeds_reach_every_fault_and_differ():
    planned = [fault for seed in range(20) for fault in plan(seed, KINDS, NODES, 120.0)]
    assert {fault.kind for fault in planned} == set(BY_NAME)
    assert any(len(fault.nodes) == len(NODES) for fault in planned), "all brokers at once"
    assert plan(1, KINDS, NODES, 120.0) != plan(2, KINDS, NODES, 120.0)
    assert plan(1, (), NODES, 120.0) == ()


def names(kinds: Sequence[FaultKind]) -> str:
    return ",".join(kind.name for kind in kinds) or "none"


def test_faults_are_chosen_by_name():
    assert names(parse_faults("all", own_processes=True)) == names([kind for kind in KINDS if kind.name != "move"])
    assert names(parse_faults("kill, pause", own_processes=True)) == "kill,pause"
    assert "disk" not in names(parse_faults("all,-disk", own_processes=True))
    assert parse_faults("none", own_processes=True) == ()
    assert names(()) == "none"
    assert names(parse_faults("all", own_processes=False)) == "clients"
    with raises_error(UsageError, "unknown-fault"):
        parse_faults("kill,earthquake", own_processes=True)
    with raises_error(UsageError, "fault-needs-processes"):
        parse_faults("kill", own_processes=False)


def test_faults_depend_on_where_the_metadata_are():
    without_redis = names(parse_faults("all", own_processes=True, metadata="raft"))
    assert "redis" not in without_redis
    assert "move" not in without_redis
    moved = names(parse_faults("all", own_processes=True, metadata="both")).split(",")
    assert {"move", "redis-kill", "redis-pause"} < set(moved)
    assert "redis-empty" not in moved
    for metadata, fault in (("redis", "move"), ("raft", "move"), ("raft", "redis-kill"), ("both", "redis-empty")):
        with raises_error(UsageError, "fault-needs-redis"):
            parse_faults(fault, own_processes=True, metadata=metadata)


@given(st.integers(0, 2**20), st.integers(0, 2**32 - 1), st.integers(0, 200))
def test_record_value_is_decoded_as_it_was_encoded(writer, sequence, size):
    value = value_of(writer, sequence)
    assert decode(encode(value, size)) == value


@given(st.binary(max_size=100))
def test_record_value_that_no_writer_wrote_is_detected(content):
    found = decode(content)
    assert found == UNREADABLE or encode(found, len(content)) == content
    assert decode(None) == UNREADABLE


@given(st.integers(0, 63), st.integers(0, 7))
def test_record_value_with_one_flipped_bit_is_detected(byte, bit):
    content = bytearray(encode(value_of(3, 77), 64))
    content[byte] ^= 1 << bit
    assert decode(bytes(content)) == UNREADABLE


def test_a_pause_counts_for_the_fault_it_overlaps():
    history = acked(*[n / 10 for n in range(100)], 15.0, *[15.0 + n / 10 for n in range(1, 100)])
    rows, quiet = unavailability(
        history,
        [injected("kill", 10.0, 12.0), injected("pause", 20.0, 21.0), injected("disk", 10.0, 12.0, "not done: x")],
    )
    assert [(row.kind, row.count, row.longest_s) for row in rows] == [("kill", 1, 5.1), ("pause", 1, 0.1)]
    assert quiet == 0.1


def test_a_store_that_was_away_alone_must_cost_no_send():
    history = acked(1.0)
    history.add(Send("w", "t-0", 9, 1.0, 2.0, Outcome.INFO))
    found = check_history(history)
    assert store_alone_costs_nothing(found, ["redis-kill", "redis-pause"])[0].invariant == "L5"
    assert store_alone_costs_nothing(found, ["redis-kill", "kill"]) == []
    assert store_alone_costs_nothing(check_history(acked(1.0)), ["redis-kill"]) == []


def read_to_the_end(history: History) -> History:
    records = [(send.offset, send.value) for send in history.sends if send.offset is not None]
    history.add(Poll("final", 3.0, 3.0, (run("t-0", records),)))
    history.add(Final("final", {"t-0": len(records)}))
    return history


def test_a_run_holds_only_when_nothing_was_violated():
    report = ChaosReport(1, 5.0, 3, ("kill",), check_history(read_to_the_end(acked(1.0, 2.0))))
    assert report.holds
    assert not report.is_void
    assert report.as_json()["ok"] is True
    assert report.as_json()["void"] is None
    assert not replace(report, violations=(Violation("L1", "x"),)).holds
    history = acked(1.0, 2.0)
    history.add(Poll("r", 3.0, 3.0, ()))
    history.sends[0] = replace(history.sends[0], offset=1)
    broken = ChaosReport(1, 5.0, 3, ("kill",), check_history(history))
    assert not broken.holds
    assert broken.as_json()["by_kind"]["inconsistent-offsets"] == 1


def test_a_run_that_proves_nothing_is_not_ok():
    def void(history: History) -> str:
        report = ChaosReport(1, 5.0, 3, (), check_history(history))
        assert report.holds
        assert report.is_void
        assert report.as_json()["ok"] is False
        return str(report.as_json()["void"])

    assert void(History()) == "no record was acknowledged"
    little = acked(1.0)
    for value in range(10, 13):
        little.add(Send("w", "t-0", value, 1.0, 2.0, Outcome.INFO))
    assert void(read_to_the_end(little)) == "only 1 of 4 records was acknowledged"
    undecided = read_to_the_end(acked(1.0, 2.0))
    undecided.add(Txn(1, "w", 1.0, 2.0, Outcome.INFO))
    assert void(undecided) == "no transaction was committed"
    assert void(acked(1.0, 2.0)) == "no consumer read t-0 to its end, so a lost end is not noticed"


def test_the_picture_is_well_formed_and_shows_faults_pauses_and_anomalies():
    found = [
        injected("kill", 1.0, 2.0),
        injected("redis-kill", 2.0, None, "<note>"),
        injected("disk", 1.0, 2.0, "not done: y"),
    ]
    anomaly = Anomaly(Kind.LOST_WRITE, "t-0", "1 & 2", at=3.0)
    picture = draw(acked(0.6, 1.0, 4.0), found, [anomaly], "title <seed>")
    root = ET.fromstring(picture)
    classes = [each.get("class") for each in root.iter()]
    assert classes.count("fault") == 2
    assert classes.count("undone") == 1
    assert classes.count("gap") == 1
    assert classes.count("bad") == 1
    assert ET.fromstring(draw(History(), [], [], "nothing")) is not None


def message(partition: int, offset: int, value: int) -> Any:
    return SimpleNamespace(
        topic=lambda: "t", partition=lambda: partition, offset=lambda: offset, value=lambda: encode(value, 20)
    )


def test_the_recorder_keeps_what_clients_saw():
    recorder = Recorder()
    for value in (1, 2, 3, 4):
        recorder.sending("w", "t-0", value)
    recorder.sent(1, Outcome.OK, 0)
    recorder.never_sent(2)
    recorder.sent(3, Outcome.FAIL, None, "too large")
    assert recorder.under_way == 1
    recorder.polled_messages("r", 0.0, [message(0, 0, 1), message(1, 5, 9), message(0, 1, 8)])
    recorder.assigned("r", {"t-0": 0})
    recorder.committed("m", "g", 0.0, {"t-0": 2}, Outcome.OK)
    recorder.read_to_the_end("f", {"t-0": 2})
    history = recorder.history()
    assert [(send.value, send.outcome) for send in history.sends] == [
        (1, Outcome.OK), (3, Outcome.FAIL), (4, Outcome.INFO),
    ]  # fmt: skip
    assert (recorder.acknowledged, recorder.refused, recorder.unknown, recorder.polled) == (1, 1, 1, 3)
    (poll,) = history.polls()
    assert [(each.partition, list(each.offsets)) for each in poll.runs] == [("t-0", [0, 1]), ("t-1", [5])]
    recorder.sent(4, Outcome.OK, 3)  # what a dead client is told does not count
    assert recorder.acknowledged == 1


def test_transaction_is_certainly_aborted_only_if_its_commit_was_never_requested():
    recorder = Recorder()
    committed, refused, aborted, died, died_in_commit = (recorder.begin(name) for name in "abcde")
    recorder.sending("a", "t-0", 1, committed)
    recorder.sent(1, Outcome.OK, 0)
    for txn in (committed, refused, died_in_commit):
        assert recorder.committing(txn)
    assert recorder.ended(committed, is_committed=True) is Outcome.OK
    assert recorder.ended(refused, is_committed=False) is Outcome.INFO
    assert recorder.ended(aborted, is_committed=False) is Outcome.FAIL
    recorder.gave_up("d")
    assert not recorder.committing(died), "a client that died requests nothing more"
    history = recorder.history()
    assert {txn.number: txn.outcome for txn in history.txns.values()} == {
        committed: Outcome.OK,
        refused: Outcome.INFO,
        aborted: Outcome.FAIL,
        died: Outcome.FAIL,
        died_in_commit: Outcome.INFO,
    }
    assert [send.txn for send in history.sends] == [committed]


def test_poll_at_the_end_of_a_partition_passes_the_markers():
    end = SimpleNamespace(
        topic=lambda: "t", partition=lambda: 0, offset=lambda: 7, error=lambda: KafkaError(KafkaError._PARTITION_EOF)
    )
    record = message(0, 5, 1)
    record.error = lambda: None
    recorder = Recorder()
    consumer = SimpleNamespace(consume=lambda _count, _seconds: [record, end])
    assert readers.take(consumer, "r", recorder) == {"t-0": 7}
    (poll,) = recorder.history().polls()
    assert [list(run.offsets) for run in poll.runs] == [[5]]
    assert poll.read_committed


def test_condition_that_does_not_settle_is_a_violation():
    settled = LivenessReport(lambda: None)
    left = [["x"], ["x"], []]
    assert settled.wait("soon", "L1", 5.0, lambda: left.pop(0))
    assert not settled.wait("never", "L2", 0.0, lambda: ["t-0"])
    assert settled.violations == [Violation("L2", "never: after 0 s still t-0")]
    assert set(settled.took_s) == {"soon", "never"}


def test_a_consumer_that_stands_still_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(readers, "_CLOSE_SECONDS", 0.05)
    began, ends = threading.Event(), threading.Event()

    class StandsStill:
        def close(self):
            began.set()
            ends.wait()

    readers.close(StandsStill())
    assert began.is_set()
    ends.set()


def test_partition_that_no_broker_serves_at_the_end_is_reported_and_is_no_bug():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        left = readers.read_everything(address, [TopicPartition("t", 0)], Recorder(), timeout_s=0.2)
    assert left == {"t-0": readers.NO_END}
