"""The app on the recorded cluster: the same picture each time. For snapshot tests, and for looking (`tests/tui/look.py`)."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from recorded_source import RecordedSource

from yak.acls.bindings import bindings_of
from yak.client.admin import ConfigValue
from yak.client.consume import Window
from yak.client.consumer import ConsumerRecord
from yak.client.groups.reset import ResetPlan, Step
from yak.config.definitions import ConfigSource
from yak.config.describe import describe_topic
from yak.ids import TopicPartition
from yak.quotas.entity import encode_entity
from yak.quotas.quota_types import CLIENT_ID, USER
from yak.tui.app import YakApp
from yak.tui.settings import UiSettings
from yak.tui.source.security import Quota
from yak.tui.state.groups import Unread

RECORDED = Path(__file__).parent / "cluster.json"


def recorded_configs(topic: str) -> list[ConfigValue]:
    """All configs of a topic, as a broker with the defaults tells them."""
    set_ = _read()["answers"][f"GET /topics/{topic}"]["configs"]
    sources = {ConfigSource.DYNAMIC_TOPIC: "topic", ConfigSource.DEFAULT: "default"}
    return [
        ConfigValue(row.name, row.value, sources[row.source], row.is_default, row.read_only, row.is_sensitive)
        for row in describe_topic(set_, {}, {}, {})
    ]


def recorded_tail(windows: Mapping[TopicPartition, Window]) -> list[ConsumerRecord]:
    """The last records of these partitions."""
    return [
        ConsumerRecord(
            *place,
            number,
            _now_ms() - (window.stop - number) * 40 - place.partition,
            "CreateTime",
            f"u{number * 7 % 50:02}".encode(),
            b'{"order":%d,"total":%d,"currency":"EUR"}' % (number * 3 + place.partition, number * 7 % 100),
            [("source", b"web")],
            None,
        )
        for place, window in windows.items()
        if window.stop is not None
        for number in range(window.start, window.stop)
    ]


_ORDERS = [TopicPartition("orders", number) for number in range(3)]
_BOTH = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
_ACLS = (
    ("TOPIC,LITERAL,orders", "ALLOW,READ,*,User:ann"),
    ("TOPIC,PREFIXED,pay", "DENY,WRITE,10.0.0.7,User:bob"),
    ("CLUSTER,LITERAL,kafka-cluster", "ALLOW,DESCRIBE,*,User:ann"),
)
_QUOTAS = (
    Quota(((CLIENT_ID, "loader"),), "producer_byte_rate", 1_000_000.0),
    Quota(((USER, "ann"), (CLIENT_ID, None)), "request_percentage", 50.0),
)
CALLS: dict[str, Any] = {
    "list_users": {"ann": _BOTH, "bob": {"SCRAM-SHA-512": 16_384}},
    "list_acls": {f"{pattern} {entry}": acl for pattern, entry in _ACLS for acl in bindings_of({pattern: {entry: ""}})},
    "list_quotas": {f"{encode_entity(each.entity)} {each.name}": each for each in _QUOTAS},
    "topic_configs": recorded_configs,
    "read_tail": recorded_tail,
    "find_group_unread": lambda group: {
        each: Unread(_committed(group, each), _now_ms() - 1_000 * (each.partition + 1), _now_ms()) for each in _ORDERS
    },
    "plan_group_reset": lambda *_arguments: ResetPlan(
        None, [Step(each, before, 0) for each, before in zip(_ORDERS, (4_798, 4_650, 0), strict=True)], None
    ),
}
"""By function name: what `source.kafka(function)` gives."""


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def _now_ms() -> int:
    return int(_read()["now_ms"])


def _committed(group: str, place: TopicPartition) -> int:
    said = _read()["answers"][f"GET /api/groups/{group}"]
    found = {(each["topic"], each["partition"]): each["committed"] for each in said["partitions"]}
    return int(found.get(tuple(place), 0))


def _answers() -> dict[str, Any]:
    """What was recorded, and what is newer than the record."""
    found = dict(_read()["answers"])
    for name, said in found.items():
        if name.startswith("GET /api/partitions/"):
            followers = [
                {"last_fetched_ms_ago": 180 if each["in_sync"] else 4_100, **each} for each in said["followers"]
            ]
            found[name] = {**said, "followers": followers}
    return found


def recorded_source(**more: Any) -> RecordedSource:
    """The cluster out of the file."""
    found = _read()
    return RecordedSource(_answers(), found["events"], calls=CALLS, **more)


def quorum_source(caught_up: int = 3) -> RecordedSource:
    """The same cluster with its metadata in a quorum of the three brokers, led by 2, instead of Redis."""

    def reported_by(node: int) -> dict[str, Any]:
        is_leader = node == 2
        own = {"role": "leader" if is_leader else "follower", "caught_up": caught_up if is_leader else None}
        return {"leader_id": 2, "epoch": 4, "high_watermark": 512, "voters": [1, 2, 3], **own}

    events = []
    for event in _read()["events"]:
        new = dict(event)
        if event["kind"] == "snapshot":
            store = {"state": "connected", "lost_ms": None, **reported_by(event["node_id"])}
            new["cluster"] = {**event["cluster"], "redis": None, "quorum": store}
        elif event["kind"] == "rates":
            new["quorum"] = reported_by(event["node_id"])
        events.append(new)
    return RecordedSource(_answers(), events, calls=CALLS)


def recorded_app(*, empty: bool = False, source: RecordedSource | None = None, **settings: Any) -> YakApp:
    """The app, its clock standing still a moment after the last event. `empty`: of a cluster that has not answered yet."""
    made = source or (RecordedSource({}, []) if empty else recorded_source())
    app = YakApp(made, UiSettings(**{"context": "local", **settings}), now_ms=lambda: int(_read()["now_ms"]))
    app.unreadable = ()  # a bug must not pass for a faulty answer
    app.animation_level = "none"  # what flashes for a moment is another picture each time
    return app
