"""The time line of a failover out of records and log lines."""

import uuid

import pytest

from yak.errors import YakError
from yak.ids import TopicPartition
from yak.local import failover
from yak.local.failover import Timeline, WriteProbe, add_records, detection_ms, is_complete, last_elected_ms
from yak.ports.metadata_store import TailedRecord

TOPIC = uuid.UUID(int=7)
BEGAN_MS = 1_763_600_000_000.0


def record(at_ms, kind, **payload):
    return TailedRecord(1, "", kind, int(BEGAN_MS) + at_ms, {"version": 0, **payload}, "")


def elected(at_ms, *leaders):
    changes = [
        {
            "topic_id": str(TOPIC), "partition": number, "isr": "2@5", "elr": "", "leader": leader, "leader_epoch": 2,
            "partition_epoch": 3, "unclean": False,
        }
        for number, leader in leaders
    ]  # fmt: skip
    return record(at_ms, "PartitionChange", changes=changes)


FENCED = record(31, "BrokerChange", node_id=1, broker_epoch=2, state="FENCED")
OFFICE = record(32, "ControllerChange", controller_id=2, controller_epoch=4, broker_epoch=5)
PARTITIONS = {(str(TOPIC), 0), (str(TOPIC), 1)}


def parsed(*records, **options):
    timeline = Timeline()
    add_records(timeline, records, began_ms=BEGAN_MS, node=1, partitions=PARTITIONS, **options)
    return timeline


def test_the_first_fencing_the_new_controller_and_the_last_election_count():
    again = record(90, "BrokerChange", node_id=1, broker_epoch=9, state="FENCED")
    found = parsed(FENCED, OFFICE, elected(40, (0, 2)), elected(44, (1, 3)), elected(60, (0, 3)), again)
    assert (found.fenced_ms, found.controller_ms, found.elected_ms) == (31, 32, 44)
    assert is_complete(found, was_controller=True, led=True)


def test_election_of_no_leader_is_no_election_and_some_partitions_are_not_all():
    assert parsed(FENCED, elected(40, (0, -1), (1, 2))).elected_ms is None
    assert parsed(FENCED, elected(40, (0, 2))).elected_ms is None
    assert not is_complete(parsed(FENCED, elected(40, (0, 2))), was_controller=False, led=True)


def test_timeline_omits_earlier_records_and_changes_of_other_brokers():
    before = record(-500, "BrokerChange", node_id=1, broker_epoch=2, state="FENCED")
    other = record(5, "BrokerChange", node_id=3, broker_epoch=2, state="FENCED")
    unfenced = record(6, "BrokerChange", node_id=1, broker_epoch=2, state="ACTIVE")
    found = parsed(before, other, unfenced)
    assert found.fenced_ms is None
    assert not is_complete(found, was_controller=False, led=False)


def test_timeline_corrects_for_a_clock_that_is_ahead():
    assert parsed(FENCED, offset_ms=11).fenced_ms == 20


def test_steps_are_in_the_order_in_which_they_happened():
    timeline = Timeline(detected_ms=20, fenced_ms=31, elected_ms=44, first_ack_ms=60.5, controller_ms=31)
    names = [name for name, _ in timeline.steps()]
    assert names == ["detected", "fenced", "controller elected", "elected", "first acknowledged write"]
    assert list(timeline.as_json()) == ["detected_ms", "fenced_ms", "controller_ms", "elected_ms", "first_ack_ms"]


def test_timeline_steps_within_one_millisecond_are_in_causal_order():
    timeline = Timeline(detected_ms=43.4, fenced_ms=43.0, controller_ms=43.1, elected_ms=50.0)
    assert [name for name, _ in timeline.steps()] == ["detected", "fenced", "controller elected", "elected"]
    timeline = Timeline(detected_ms=50.52, fenced_ms=50.0, first_ack_ms=60.0)  # shown as 50.5, and as 50
    assert [name for name, _ in timeline.steps()] == ["detected", "fenced", "first acknowledged write"]


def test_the_earliest_log_line_about_that_broker_is_the_detection():
    lines = [
        "2025-11-20T00:53:19.000Z WARNING broker-dead node_id=1 broker_epoch=2",
        "2025-11-20T00:53:20.052Z WARNING broker-dead node_id=11 broker_epoch=2",
        "2025-11-20T00:53:20.054Z WARNING broker-dead node_id=1 broker_epoch=2 detected_ms=25",
        "2025-11-20T00:53:20.051Z INFO    ready node_id=1",
        "not a line of the log",
    ]
    assert detection_ms(lines, began_ms=BEGAN_MS, node=1) == 54
    assert detection_ms(lines[3:], began_ms=BEGAN_MS, node=1) is None


def test_move_is_done_when_the_last_partition_has_the_requested_leader():
    records = [elected(4, (0, 3)), elected(8, (1, 2)), elected(9, (0, 2))]
    wanted = {(str(TOPIC), 0): 2, (str(TOPIC), 1): 2}
    assert last_elected_ms(records, wanted, began_ms=BEGAN_MS) == 9
    assert last_elected_ms(records[:2], wanted, began_ms=BEGAN_MS) is None


@pytest.mark.parametrize(
    ("errors", "tries", "left"),
    [
        ([], 1, []),
        (["no-answer"], 2, []),
        (["no-answer", "unknown-topic"], 2, []),
        (["no-answer"] * 2, 3, []),
        (["no-answer"] * 3, 3, ["probe"]),
    ],
)
def test_topic_of_the_probe_is_deleted_by_new_connections_until_one_works(monkeypatch, errors, tries, left):
    made, reported = [], []

    class OneTry:
        def __init__(self, servers):
            made.append(servers)

        def delete_topics(self, names):
            assert names == ["probe"]
            if len(made) <= len(errors):
                raise YakError(errors[len(made) - 1], "not deleted")

    monkeypatch.setattr(failover, "Admin", OneTry)
    monkeypatch.setattr(failover.time, "sleep", lambda _s: None)
    failover._delete("127.0.0.1:1", "probe", reported.append)
    assert (made, reported) == (["127.0.0.1:1"] * tries, left)


def test_the_producer_of_the_probe_does_not_create_a_deleted_topic_again(monkeypatch):
    configs = []
    monkeypatch.setattr("confluent_kafka.Producer", configs.append)
    WriteProbe("127.0.0.1:1", TopicPartition("__yak_failover_probe-1", 0))
    assert [each["allow.auto.create.topics"] for each in configs] == [False]
