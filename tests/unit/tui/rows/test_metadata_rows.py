"""Records of the metadata log in words, the cluster as it was, and what changed."""

import json
from pathlib import Path

import pytest

from yak.cluster.records import Kind
from yak.tui.look import Look
from yak.tui.rows import metadata
from yak.tui.rows.metadata import (
    COLUMNS,
    LogRows,
    diff_rows,
    image_rows,
    known_rows,
    moment,
    record_words,
    things,
    touched_by,
)
from yak.tui.state.metadata_log import MetadataLog

LOOK = Look()
RECORDED = json.loads((Path(__file__).parents[3] / "tui" / "recorded" / "cluster.json").read_text(encoding="utf-8"))
PAGE = RECORDED["answers"]["GET /metadata/log"]
IMAGE = RECORDED["answers"]["GET /metadata/image"]
EARLY = RECORDED["answers"]["GET /metadata/image?at=5"]


def change(leader=2, isr=(2, 1), *, unclean=False, replicas=(2, 3, 1), partition=1):
    return {
        "partitionId": partition, "topicUUID": "id", "replicas": list(replicas), "addingReplicas": [],
        "removingReplicas": [], "ISR": list(isr), "leader": leader, "leaderEpoch": 8, "partitionEpoch": 3, "unclean": unclean,
    }  # fmt: skip


def words(kind, **said):
    return record_words({"kind": kind, "record": said}, {"id": "orders"})


@pytest.mark.parametrize(
    ("kind", "said", "told", "tone"),
    [
        ("BrokerChange", {"brokerId": 2, "brokerStatus": "FENCED", "epoch": 6, "guest": False},
         "broker 2 is FENCED: it leads nothing until it is back", "warn"),
        ("ControllerChange", {"controllerId": 3, "controllerEpoch": 8, "brokerEpoch": 1},
         "broker 3 is the controller, epoch 8", "accent"),
        ("ControllerChange", {"controllerId": -1, "controllerEpoch": 8, "brokerEpoch": 1},
         "nobody is the controller, epoch 8", "warn"),
        ("Topic", {"name": "a", "numPartitions": 1, "configs": {"retention.ms": "5"}, "topicUUID": "x"},
         "topic a has 1 partition: retention.ms=5", "good"),
        ("RemoveTopic", {"name": "a", "topicUUID": "x"}, "topic a is deleted", "warn"),
        ("PartitionChange", {"partitions": [change()]}, "orders-1 led by 2 in epoch 8, in sync 2,1 without 3", "warn"),
        ("PartitionChange", {"partitions": [change(isr=(1, 2, 3))]}, "orders-1 led by 2 in epoch 8, in sync 1,2,3", ""),
        ("PartitionChange", {"partitions": [change(-1, ())]},
         "orders-1 no leader in epoch 8, in sync none without 2,3,1", "bad"),
        ("PartitionChange", {"partitions": [change(isr=(2,), replicas=(2,), unclean=True)]},
         "orders-1 led by 2 in epoch 8, in sync 2, UNCLEAN: records may be lost", "bad"),
        ("Config", {"resourceType": "TOPIC", "resourceName": "a", "configs": {"x": "1", "y": None}},
         "configs of topic a: x=1, y is the default again", ""),
        ("ProducerIds", {"brokerId": 1, "producerId": 1000, "nextProducerId": 2000, "brokerEpoch": 1},
         "broker 1 gives out producer ids 1000 to 1999", "dim"),
        ("UnregisterBroker", {"brokerId": 4, "epoch": 2, "brokerStatus": "CLOSED"},
         "broker 4 is unregistered: it is no part of the cluster any more", "warn"),
        ("Newer", {"field": 3}, "field 3", ""),
        ("Topic", {"field": 3}, "field 3", ""),
    ],
)  # fmt: skip
def test_each_kind_is_told_in_words(kind, said, told, tone):
    assert words(kind, **said) == (told, tone)


def test_no_kind_of_record_is_without_words():
    assert set(metadata._WORDS) == {str(kind) for kind in Kind}


def test_all_recorded_records_have_words_and_none_is_told_by_its_fields():
    names = {each["record"]["topicUUID"]: each["record"]["name"] for each in PAGE["records"] if each["kind"] == "Topic"}
    for record in PAGE["records"]:
        told, _tone = record_words(record, names)
        assert told
        assert "UUID" not in told
        assert "{" not in told


def test_many_changes_of_one_record_are_counted():
    told, _ = words("PartitionChange", partitions=[change(partition=number) for number in range(5)])
    assert told.endswith("; and 2 more")


def test_rows_are_made_when_they_are_looked_at_also_of_records_that_were_not_read():
    log = MetadataLog()
    log.take({**PAGE, "records": PAGE["records"][:3], "end": 100_000})
    rows = LogRows(log, LOOK, RECORDED["now_ms"])
    assert len(rows) == 100_000
    assert rows.at(0).key == "1"
    assert rows.at(0).cells[2].text == "Cluster"
    assert rows.at(99_999).cells[1].text == "…"
    assert (rows.place_of("100000"), rows.place_of("100001")) == (99_999, None)
    assert [row.key for row in known_rows(log, LOOK, 0)] == ["1", "2", "3"]
    assert all(len(rows.at(index).cells) == len(COLUMNS) for index in (0, 50))


def test_a_time_of_another_day_has_its_date():
    assert moment(1_000, LOOK, 2_000) == "00:00:01.000Z"
    assert moment(1_000, LOOK, 90_000_000) == "1970-01-01 00:00:01.000Z"
    assert moment(None, LOOK, 0) == "–"


def test_the_cluster_is_told_broker_by_broker_and_partition_by_partition():
    rows = {row.key: [cell.text for cell in row.cells] for row in image_rows(things(IMAGE), {"broker:3"}, LOOK)}
    assert rows["broker:3"] == ["◆ broker 3", "▲ FENCED, at 127.0.0.1:9094, broker epoch 2"]
    assert rows["controller"] == ["  controller", "broker 2, epoch 2"]
    assert rows["topic:orders"][1].startswith("3 partitions, ")
    assert rows["partition:orders:1"] == ["    orders-1", "▲ leader 2, epoch 2, ISR 2,1, of 2,3,1"]
    assert len(rows) == len(things(IMAGE))


def test_a_cluster_that_is_not_made_yet_can_be_shown():
    nothing = {
        "offset": 0, "timestamp": 0.0, "clusterId": "", "incarnation": 0, "controllerId": -1, "controllerEpoch": 0,
        "brokers": [], "topics": [], "partitions": [], "producers": [], "brokerConfigs": {"": {}},
    }  # fmt: skip
    assert [row.cells[1].text for row in image_rows(things(nothing), (), LOOK)] == [
        "not made yet, incarnation 0", "▲ none, epoch 0",
    ]  # fmt: skip


def test_what_changed_is_what_came_what_went_and_which_fields_are_others():
    before, after = things(EARLY), things(IMAGE)
    rows = {row.key: [cell.text for cell in row.cells] for row in diff_rows(before, after, LOOK)}
    assert rows["topic:orders"][0] == "+ orders"
    assert rows["controller"] == ["~ controller", "broker 3 → broker 2, epoch 1 → 2"]
    assert rows["broker:3"][0] == "~ broker 3"
    assert "ALIVE → FENCED" in rows["broker:3"][1]
    back = {row.key: row.cells[0].text for row in diff_rows(after, before, LOOK)}
    assert back["topic:orders"] == "- orders"
    assert diff_rows(after, after, LOOK) == []


def test_each_recorded_record_touches_things_that_there_are():
    names = {each["record"]["topicUUID"]: each["record"]["name"] for each in PAGE["records"] if each["kind"] == "Topic"}
    known = things(IMAGE)
    for record in PAGE["records"]:
        keys = touched_by(record, names)
        assert keys, record["kind"]
        assert keys <= set(known), record["kind"]
    assert touched_by({"kind": "Newer", "record": {}}, {}) == set()
    config = {"kind": "Config", "record": {"resourceType": "BROKER", "resourceName": "1", "configs": {}}}
    assert touched_by(config, {}) == {"configs:1"}


def test_the_configs_of_a_group_are_shown_and_touched_by_their_record():
    name, value = "consumer.session.timeout.ms", "6000"
    said = {"resourceType": "group", "resourceName": "Billing", "configs": {name: value}}
    record = {"kind": "Config", "record": said}
    known = things({**IMAGE, "groupConfigs": {"Billing": {name: value}}})
    rows = {row.key: [cell.text for cell in row.cells] for row in image_rows(known, (), LOOK)}
    (key,) = touched_by(record, {})
    assert rows[key] == ["  configs of group Billing", f"{name} = {value}"]
