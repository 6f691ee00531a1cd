from yak.tui.state.picture import Picture, Rates


def row(topic="orders", number=0, **more):
    return {
        "topic": topic, "partition": number, "leader": 1, "leader_epoch": 0, "partition_epoch": 0, "replicas": [1, 2], "isr": [1, 2], "min_isr": 1,
        "high_watermark": 5, "log_end_offsets": {"1": 5, "2": 5}, **more,
    }  # fmt: skip


def picture(*rows):
    made = Picture()
    cluster = {
        "cluster_id": "c",
        "controller_id": 1,
        "controller_epoch": 1,
        "redis": {"state": "connected", "lost_ms": None},
        "brokers": [],
    }
    made.take({"kind": "snapshot", "time_ms": 1_000, "node_id": 1, "cluster": cluster, "partitions": list(rows)})
    return made


def topic_event(kind, partitions=2, topic_id="a", **more):
    return {
        "kind": kind, "time_ms": 2_000, "node_id": 1, "message": "m", "topic": "new", "topic_id": topic_id,
        "partitions": partitions, **more,
    }  # fmt: skip


def names(made):
    return {topic: [each.partition for each in partitions] for topic, partitions in made.topics.items()}


def test_partitions_by_topic_are_in_the_order_of_their_numbers():
    made = picture(row(number=2), row(number=0), row("payments"), row(number=1))
    assert names(made) == {"orders": [0, 1, 2], "payments": [0]}
    assert made.topics["orders"][1] is made.partitions["orders", 1]


def test_created_topic_is_requested_until_its_partitions_are_known():
    made = picture(row())
    made.take(topic_event("topic-created"))
    assert made.incomplete == {"new": 0}
    before = made.topics_version
    made.take({"kind": "partitions", "time_ms": 2_100, "partitions": [row("new", 0), row("new", 1)]})
    assert names(made)["new"] == [0, 1]
    assert made.topics_version > before
    made.incomplete.clear()
    made.take(topic_event("topic-created", topic_id="b", time_ms=2_200))
    assert made.incomplete == {}
    made.take(topic_event("topic-changed", partitions=4, time_ms=2_300))
    assert made.incomplete == {"new": 0}


def test_deleted_topic_is_not_requested():
    made = picture(row())
    made.take(topic_event("topic-created"))
    made.take(topic_event("topic-deleted"))
    assert made.incomplete == {}
    made.take({**topic_event("topic-deleted", topic_id="o"), "topic": "orders"})
    assert (made.topics, made.partitions) == ({}, {})


def test_late_topic_deletion_event_does_not_remove_the_topic_created_after_it():
    made = picture(row("new"))
    made.take(topic_event("topic-deleted", node_id=1))
    made.take({"kind": "partitions", "time_ms": 2_100, "partitions": [row("new")]})
    made.take(topic_event("topic-deleted", node_id=2))  # told late by another broker
    assert names(made) == {"new": [0]}


def test_the_first_write_after_an_election_is_seen_in_the_high_watermark():
    made = picture(row())
    made.take({
        "kind": "leader-changed", "time_ms": 3_000, "node_id": 2, "message": "m", "topic": "orders", "partition": 0, "from": 1, "to": 2,
        "leader": 2, "leader_epoch": 1, "partition_epoch": 1,
    })  # fmt: skip
    progress = {"topic": "orders", "partition": 0, "leader_epoch": 1, "high_watermark": 5, "log_end_offsets": {"2": 6}}
    made.take({"kind": "progress", "time_ms": 3_100, "node_id": 2, "partitions": [progress]})
    assert made.elections.last.first_write_ms is None
    made.take({"kind": "progress", "time_ms": 3_200, "node_id": 2, "partitions": [{**progress, "high_watermark": 6}]})
    assert made.elections.last.first_write_ms == 3_200


def rates(node_id, topics, others, time_ms=3_000):
    def numbers(a_second):
        return {f"{name}_per_second": a_second for name in ("messages_in", "messages_out", "bytes_in", "bytes_out")}

    listed = [{"topic": topic, **numbers(a_second)} for topic, a_second in topics.items()]
    event = {"kind": "rates", "time_ms": time_ms, "node_id": node_id, "topics": listed}
    return event | numbers(9.0) | {"other_topics": {"count": others, **numbers(0.0)}}


def test_rates_of_a_topic_that_no_broker_reports_apart_are_those_of_its_partitions():
    made = picture(row(), row("quiet"), row("busy"))
    made.take(rates(1, {"busy": 7.0}, others=0))
    assert made.topic_rates("orders") == Rates()
    for time_ms, high_watermark in ((4_000, 5), (5_000, 25)):
        moved = {
            "topic": "orders",
            "partition": 0,
            "leader_epoch": 0,
            "high_watermark": high_watermark,
            "log_end_offsets": {},
        }
        made.take({"kind": "progress", "time_ms": time_ms, "node_id": 1, "partitions": [moved]})
    made.take(rates(1, {"busy": 7.0}, others=3, time_ms=5_500))
    assert made.topic_rates("busy").messages_out == 7.0
    assert made.topic_rates("orders") == Rates(5.0, None, None, None)
    assert made.topic_rates("quiet") == Rates(0.0, None, None, None)
