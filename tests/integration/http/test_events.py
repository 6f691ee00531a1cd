"""Live events on real brokers: sent in order, also while a broker dies, and resumed by a cursor."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue

import httpx
import pytest
from confluent_kafka import Consumer
from support.waiting import wait_until

from yak.client.admin import Admin


class Listening:
    """A listener in a thread: events as they come, `(id, event)`."""

    def __init__(self, response: httpx.Response) -> None:
        self.all: list[tuple[str | None, dict]] = []
        self._queue: Queue[tuple[str | None, dict]] = Queue()
        self._response = response
        self.comments: list[str] = []
        self.opened = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self.opened.wait(60)

    def _read(self) -> None:
        event_id, event = None, ""
        try:
            for line in self._response.iter_lines():
                name, _, value = line.partition(": ")
                if not name:
                    self.comments.append(value)
                    self.opened.set()
                elif name == "id":
                    event_id = value
                elif name == "event":
                    event = value
                elif name == "data":
                    found = json.loads(value)
                    assert found["kind"] == event
                    self._queue.put((event_id, found))
                    self.all.append((event_id, found))
                    event_id = None
        except (httpx.HTTPError, httpx.StreamError):
            pass

    def until(self, kind: str, within: float = 15.0, **fields: object) -> dict:
        """The next event of this kind with these fields; what comes before it is passed over."""
        end = time.monotonic() + within
        while (left := end - time.monotonic()) > 0:
            try:
                _id, event = self._queue.get(timeout=left)
            except Empty:
                break
            if event["kind"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event
        raise AssertionError(f"no {kind} {fields} in {[event['kind'] for _id, event in self.all]}")

    def ever(self, kind: str, **fields: object) -> dict:
        """An event of this kind with these fields that came already, or the next one."""
        for _id, event in list(self.all):
            if event["kind"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event
        return self.until(kind, **fields)

    def kinds(self) -> list[str]:
        """Of all that came."""
        return [event["kind"] for _id, event in self.all]

    @property
    def last_id(self) -> str:
        """Of the newest event that has one."""
        return next(event_id for event_id, _event in reversed(self.all) if event_id is not None)


@contextmanager
def listening(cluster, node: int, query: str = "", **headers: str) -> Iterator[Listening]:
    with (
        httpx.Client(timeout=httpx.Timeout(5.0, read=60.0), trust_env=False) as client,
        client.stream("GET", cluster.url(node, f"/api/events?{query}"), headers=headers) as response,
    ):
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Listening(response)


def make_topic(cluster, topic, assignment, **configs):
    Admin(cluster.bootstrap).create_topic(topic, assignment=assignment, configs=configs)
    return topic


def test_events_of_a_topic_are_sent(cluster, new_name):
    topic = new_name()
    with listening(cluster, 1, "kinds=topic,config,reassignment,leader") as events:
        make_topic(cluster, topic, [[1, 2], [2, 3]])
        made = events.until("topic-created", topic=topic)
        assert (made["partitions"], made["replication_factor"], made["node_id"]) == (2, 2, 1)
        assert made["message"] == f"topic {topic} is created: 2 partitions, 2 replicas each"
        assert abs(made["time_ms"] - time.time() * 1000) < 10_000
        Admin(cluster.bootstrap).alter_configs("topic", topic, {"retention.ms": "5000"})
        assert events.until("config-changed", topic=topic)["changed"] == {"retention.ms": "5000"}
        cluster.post(2, "/api/failover", json={"topic": topic, "partition": 0, "to": 2})
        events.until("reassignment-done", topic=topic, partition=0)
        moved = events.until("leader-changed", topic=topic, partition=0)
        assert (moved["from"], moved["to"]) == (1, 2)
        Admin(cluster.bootstrap).delete_topic(topic)
        events.until("topic-deleted", topic=topic)


def test_live_brokers_send_the_events_of_a_killed_one_causes_first(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[3, 1, 2], [1, 2, 3]])
    wait_until(lambda: len(cluster.get(2, f"/api/isr?topic={topic}").json()) == 2, "the topic")
    with (
        listening(cluster, 1, "kinds=broker,leader,isr") as one,
        listening(cluster, 2, "kinds=broker,leader,isr") as two,
    ):
        cluster.local.kill(3)
        for events in (one, two):
            fenced = events.until("broker-fenced", broker=3)
            changed = events.until("leader-changed", topic=topic, partition=0)
            assert (changed["from"], changed["to"]) == (3, 1)
            assert fenced["time_ms"] <= changed["time_ms"]
            shrunk = [
                event
                for _id, event in events.all
                if event["kind"].startswith("isr") and event.get("topic") == topic and 3 in event["left"]
            ]
            wait_until(lambda events=events: _shrunk(events, topic) == {0, 1}, "both partitions without 3")
            assert all(3 not in event["to"] for event in shrunk)
        cluster.local.restart(3)
        for events in (one, two):
            events.until("broker-registered", broker=3)
            events.until("broker-unfenced", broker=3)
            events.until("isr-expanded", topic=topic)


def _shrunk(events, topic):
    return {
        event["partition"]
        for _id, event in list(events.all)
        if event["kind"].startswith("isr") and event.get("topic") == topic and 3 in event["left"]
    }


def test_a_cursor_resumes_where_the_last_event_was(cluster, new_name):
    first, second, third = new_name(), new_name(), new_name()
    with listening(cluster, 1, "kinds=topic") as events:
        make_topic(cluster, first, [[1]])
        events.until("topic-created", topic=first)
        cursor = events.last_id
    for name in (second, third):
        make_topic(cluster, name, [[1]])
    for more in ({"query": f"kinds=topic&cursor={cursor}"}, {"query": "kinds=topic", "last_event_id": cursor}):
        headers = {"last-event-id": more["last_event_id"]} if "last_event_id" in more else {}
        with listening(cluster, 1, more["query"], **headers) as events:
            events.until("topic-created", topic=second)
            events.until("topic-created", topic=third)
            assert [event["topic"] for _id, event in events.all] == [second, third]
            numbers = [int(event_id.rpartition(":")[2]) for event_id, _event in events.all]
            assert numbers == sorted(numbers)
            assert numbers[0] > int(cursor.rpartition(":")[2])


def test_a_cursor_of_another_boot_is_a_gap_and_a_snapshot_says_how_it_is(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[2, 1]])
    cluster.produce(topic, 3)
    with listening(cluster, 1, f"cursor=9-abc:17&snapshot=true&topic={topic}&kinds=topic") as events:
        gap = events.until("gap")
        assert "snapshot" in gap["hint"]
        snapshot = events.until("snapshot")
        assert snapshot["cluster"]["reported_by"] == 1
        (row,) = snapshot["partitions"]
        assert (row["leader"], row["high_watermark"], row["log_end_offsets"]["2"]) == (2, 3, 3)
        cursor = events.last_id
    # the snapshot's id is a cursor too
    other = make_topic(cluster, new_name(), [[1]])
    with listening(cluster, 1, f"cursor={cursor}&kinds=topic") as events:
        events.until("topic-created", topic=other)
        assert "gap" not in events.kinds()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_coordinator_sends_the_events_of_a_group(cluster, new_name, protocol):
    topic, group = new_name(), new_name()
    make_topic(cluster, topic, [[1, 2, 3]])
    cluster.produce(topic, 1)

    cluster.consume(topic, group, 1, protocol).close()
    coordinator = cluster.get(1, f"/api/groups/{group}").json()["coordinator"]
    with listening(cluster, coordinator, "kinds=group") as events:
        member = consumer_again(cluster, topic, group, protocol)
        try:
            events.until("group-stable", group=group)
            # with one member the consumer protocol has nothing to wait for
            assert protocol == "consumer" or "group-rebalancing" in events.kinds()
        finally:
            member.close()
        events.until("group-empty", group=group)


def consumer_again(cluster, topic, group, protocol):
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol}
    made = Consumer(settings)
    made.subscribe([topic])
    deadline = time.monotonic() + 15
    while not made.assignment():
        assert time.monotonic() < deadline
        made.poll(0.1)
    return made


def test_stop_of_the_controller_and_its_successor_are_events(cluster):
    controller = cluster.get(1, "/health").json()["controller_id"]
    other = next(node for node in (1, 2, 3) if node != controller)
    with listening(cluster, other, "kinds=broker,controller") as events:
        cluster.local.restart(controller)
        events.until("broker-stopping", broker=controller)
        changed = events.until("controller-changed")
        assert (changed["from"], changed["to"]) != (None, None)
        events.ever("broker-registered", broker=controller)  # a broker that restarts may be quicker than its successor


def test_a_stream_with_a_duration_ends_in_order(cluster, new_name):
    with httpx.Client(timeout=10.0, trust_env=False) as client:
        for _ in range(2):  # the second on the same connection: the first ended well
            found = client.get(cluster.url(2, "/api/events?duration_ms=300&rates=100ms"))
            assert found.status_code == 200
            assert found.text.count("event: rates\n") in (1, 2, 3)
    assert cluster.ask(2, "HEAD", "/api/events").status_code == 200


INVALID = [
    "kinds=lunch",
    "kinds=",
    "kinds=leader,,isr",
    "topic=a%20b",
    "topic=",
    "rates=50ms",
    "rates=61s",
    "rates=fast",
    "cursor=12",
    "snapshot=1",
    "duration_ms=0",
    "duration_ms=x",
    "since=1",
    "kinds=leader&kinds=isr",
]


def test_event_queries_with_invalid_parameters_are_refused(cluster):
    for query in INVALID:
        found = cluster.get(1, f"/api/events?{query}")
        assert found.status_code == 400, (query, found.text)
        assert set(found.json()) == {"error", "message", "hint"}
