"""Rows of the metadata log, the cluster as of a record, and what changed."""

import json
from pathlib import Path

from yak.tui.formatter import Formatter
from yak.tui.rows.metadata import COLUMNS, LogRows, diff_rows, image_rows, known_rows, things, touched_by
from yak.tui.state.metadata_log import MetadataLog

FMT = Formatter()
RECORDED = json.loads((Path(__file__).parents[3] / "tui" / "recorded" / "cluster.json").read_text(encoding="utf-8"))
PAGE = RECORDED["answers"]["GET /metadata/log"]
IMAGE = RECORDED["answers"]["GET /metadata/image"]
EARLY = RECORDED["answers"]["GET /metadata/image?at=5"]


def test_log_rows_are_made_on_demand_also_for_unread_records():
    log = MetadataLog()
    log.take({**PAGE, "records": PAGE["records"][:3], "end": 100_000})
    rows = LogRows(log, FMT, RECORDED["now_ms"])
    assert len(rows) == 100_000
    assert rows.at(0).key == "1"
    assert rows.at(0).cells[2].text == "Cluster"
    assert rows.at(99_999).cells[1].text == "…"
    assert (rows.place_of("100000"), rows.place_of("100001")) == (99_999, None)
    assert [row.key for row in known_rows(log, FMT, 0)] == ["1", "2", "3"]
    assert all(len(rows.at(index).cells) == len(COLUMNS) for index in (0, 50))


def test_a_time_of_another_day_has_its_date():
    assert FMT.moment(1_000, 2_000) == "00:00:01.000Z"
    assert FMT.moment(1_000, 90_000_000) == "1970-01-01 00:00:01.000Z"
    assert FMT.moment(None, 0) == "–"


def test_image_rows_list_brokers_and_partitions():
    rows = {row.key: [cell.text for cell in row.cells] for row in image_rows(things(IMAGE), {"broker:3"}, FMT)}
    assert rows["broker:3"] == ["◆ broker 3", "▲ FENCED, at 127.0.0.1:9094, broker epoch 2"]
    assert rows["controller"] == ["  controller", "broker 2, epoch 2"]
    assert rows["topic:orders"][1].startswith("3 partitions, ")
    assert rows["partition:orders:1"] == ["    orders-1", "▲ leader 2, epoch 2, ISR 2,1, of 2,3,1"]
    assert len(rows) == len(things(IMAGE))


def test_metadata_rows_of_an_empty_cluster_are_the_cluster_and_its_controller():
    nothing = {
        "offset": 0, "timestamp": 0.0, "clusterId": "", "incarnation": 0, "controllerId": -1, "controllerEpoch": 0,
        "brokers": [], "topics": [], "partitions": [], "producers": [], "brokerConfigs": {"": {}},
    }  # fmt: skip
    assert [row.cells[1].text for row in image_rows(things(nothing), (), FMT)] == [
        "not made yet, incarnation 0", "▲ none, epoch 0",
    ]  # fmt: skip


def test_brokers_and_partitions_have_the_states_of_the_other_screens():
    broker = {**IMAGE["brokers"][0], "brokerStatus": "ALIVE", "state": "STOPPING"}
    topic = {**IMAGE["topics"][0], "name": "orders", "configs": {"min.insync.replicas": "2"}}
    partition = {**IMAGE["partitions"][0], "topicName": "orders", "leader": 1, "replicas": [1, 2, 3], "ISR": [1]}
    image = {**IMAGE, "brokers": [broker], "topics": [topic], "partitions": [partition]}
    found = things(image)
    assert found[f"broker:{broker['brokerId']}"].fields[""] == "STOPPING"
    key = f"partition:orders:{partition['partitionId']}"
    assert found[key].tone == "bad", "under min ISR"
    topic["configs"] = {}
    assert things({**image, "brokerConfigs": {"": {}}})[key].tone == "warn", "under-replicated"
    partition["ISR"] = [1, 2, 3]
    assert things(image)[key].tone == ""


def test_metadata_diff_has_added_and_removed_objects_and_changed_fields():
    before, after = things(EARLY), things(IMAGE)
    rows = {row.key: [cell.text for cell in row.cells] for row in diff_rows(before, after, FMT)}
    assert rows["topic:orders"][0] == "+ orders"
    assert rows["controller"] == ["~ controller", "broker 3 → broker 2, epoch 1 → 2"]
    assert rows["broker:3"][0] == "~ broker 3"
    assert "ALIVE → FENCED" in rows["broker:3"][1]
    back = {row.key: row.cells[0].text for row in diff_rows(after, before, FMT)}
    assert back["topic:orders"] == "- orders"
    assert diff_rows(after, after, FMT) == []


def test_each_metadata_record_refers_to_existing_objects():
    names = {each["record"]["topicUUID"]: each["record"]["name"] for each in PAGE["records"] if each["kind"] == "Topic"}
    known = things(IMAGE)
    for record in PAGE["records"]:
        keys = touched_by(record, names)
        assert keys, record["kind"]
        assert keys <= set(known), record["kind"]
    assert touched_by({"kind": "Newer", "record": {}}, {}) == set()
    config = {"kind": "Config", "record": {"resourceType": "BROKER", "resourceName": "1", "configs": {}}}
    assert touched_by(config, {}) == {"configs:1"}


def test_group_configs_are_listed_and_marked_by_their_record():
    name, value = "consumer.session.timeout.ms", "6000"
    said = {"resourceType": "group", "resourceName": "Billing", "configs": {name: value}}
    record = {"kind": "Config", "record": said}
    known = things({**IMAGE, "groupConfigs": {"Billing": {name: value}}})
    rows = {row.key: [cell.text for cell in row.cells] for row in image_rows(known, (), FMT)}
    (key,) = touched_by(record, {})
    assert rows[key] == ["  configs of group Billing", f"{name} = {value}"]
