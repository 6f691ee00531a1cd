"""Records of the metadata log as sentences."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from yak.cluster.records import BrokerState, Kind
from yak.view import metadata_sentences
from yak.view.metadata_sentences import Severity, sentence

RECORDED = json.loads((Path(__file__).parents[2] / "tui" / "recorded" / "cluster.json").read_text(encoding="utf-8"))
RECORDS = RECORDED["answers"]["GET /metadata/log"]["records"]
NAMES = {"id": "orders"}


def change(
    leader: int = 2,
    isr: Iterable[int] = (2, 1),
    *,
    unclean: bool = False,
    replicas: Iterable[int] = (2, 3, 1),
    partition: int = 1,
) -> dict[str, Any]:
    return {
        "partitionId": partition, "topicUUID": "id", "replicas": list(replicas), "addingReplicas": [],
        "removingReplicas": [], "ISR": list(isr), "leader": leader, "leaderEpoch": 8, "partitionEpoch": 3, "unclean": unclean,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "content", "text", "severity"),
    [
        ("BrokerChange", {"brokerId": 2, "state": "FENCED"}, "broker 2 is fenced and leads no partition", "warn"),
        ("BrokerChange", {"brokerId": 2, "state": "STOPPING"}, "broker 2 is shutting down", "warn"),
        ("ControllerChange", {"controllerId": 3, "controllerEpoch": 8}, "broker 3 is the controller, epoch 8", "accent"),
        ("ControllerChange", {"controllerId": -1, "controllerEpoch": 8}, "no broker is the controller, epoch 8", "warn"),
        ("Topic", {"name": "a", "numPartitions": 1, "configs": {"retention.ms": "5"}, "topicUUID": "x"},
         "topic a has 1 partition: retention.ms=5", "good"),
        ("RemoveTopic", {"name": "a", "topicUUID": "x"}, "topic a is deleted", "warn"),
        ("PartitionChange", {"partitions": [change()]}, "orders-1 led by 2 in epoch 8, ISR 2,1 without 3", "warn"),
        ("PartitionChange", {"partitions": [change(isr=(1, 2, 3))]}, "orders-1 led by 2 in epoch 8, ISR 1,2,3", ""),
        ("PartitionChange", {"partitions": [change(-1, ())]},
         "orders-1 without a leader in epoch 8, ISR none without 2,3,1", "bad"),
        ("PartitionChange", {"partitions": [change(isr=(2,), replicas=(2,), unclean=True)]},
         "orders-1 led by 2 in epoch 8, ISR 2, UNCLEAN: records may be lost", "bad"),
        ("Config", {"resourceType": "TOPIC", "resourceName": "a", "configs": {"x": "1", "y": None}},
         "configs of topic a: x=1, y is reset to its default", ""),
        ("ProducerIds", {"brokerId": 1, "producerId": 1000, "nextProducerId": 2000},
         "broker 1 assigns producer ids 1000 to 1999", "dim"),
        ("UnregisterBroker", {"brokerId": 4, "epoch": 2}, "broker 4 is unregistered", "warn"),
        ("Newer", {"field": 3}, "field 3", ""),
        ("Topic", {"field": 3}, "field 3", ""),
    ],
)  # fmt: skip
def test_sentence_of_each_kind(kind: str, content: dict[str, Any], text: str, severity: Severity) -> None:
    assert sentence(kind, content, NAMES) == (text, severity)


def test_sentence_exists_for_each_kind_and_broker_state() -> None:
    assert set(metadata_sentences._SENTENCES) == {str(kind) for kind in Kind}
    assert set(metadata_sentences._BROKER_STATES) == {str(state) for state in BrokerState}


def test_sentence_of_recorded_records_has_no_field_names() -> None:
    names = {each["record"]["topicUUID"]: each["record"]["name"] for each in RECORDS if each["kind"] == "Topic"}
    for record in RECORDS:
        text, _severity = sentence(record["kind"], record["record"], names)
        assert text
        assert "UUID" not in text
        assert "brokerId" not in text
        assert "{" not in text


def test_sentence_of_many_changes_counts_the_rest() -> None:
    text, _ = sentence("PartitionChange", {"partitions": [change(partition=number) for number in range(5)]}, NAMES)
    assert text.endswith("; and 2 more")
