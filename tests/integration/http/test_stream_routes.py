"""Server-sent events on real brokers: several topics, going on by Last-Event-ID, gaps, ends, and a broker killed."""

import json
import socket
import threading
from contextlib import contextmanager, suppress

import httpx
import pytest
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.ids import TopicPartition


class Listener:
    """Events of a stream, read by a thread."""

    def __init__(self, url, headers):
        self.events = []
        self.comments = []
        self.last_id = None
        self._client = httpx.Client(trust_env=False, timeout=60)
        self._response = self._client.send(self._client.build_request("GET", url, headers=headers), stream=True)
        assert self._response.status_code == 200, self._response.read()
        assert self._response.headers["content-type"].startswith("text/event-stream")
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        wait_until(lambda: self.last_id, "the first id")

    def _read(self):
        event = {}
        try:
            for line in self._response.iter_lines():
                name, _, value = line.partition(": ")
                if not line:
                    self.last_id = event.get("id", self.last_id)
                    if "data" in event:
                        self.events.append((event.get("event", "message"), json.loads(event["data"])))
                    event = {}
                elif name:
                    event[name] = value
                else:
                    self.comments.append(value)
        except (httpx.HTTPError, OSError):
            pass

    def payloads(self, topic=None):
        return [
            each["payload"] for name, each in list(self.events) if name == "message" and topic in (None, each["topic"])
        ]

    def close(self):
        with suppress(OSError):
            self._response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        # a descriptor that is closed under the thread may become that of another connection, for which the thread waits
        self._thread.join()
        self._response.close()
        self._client.close()


@contextmanager
def listening(cluster, node, path, last_id=None):
    listener = Listener(cluster.url(node, path), {} if last_id is None else {"Last-Event-ID": last_id})
    try:
        yield listener
    finally:
        listener.close()


@pytest.fixture
def topics(cluster, new_name):
    return [cluster.make_topic(new_name(), partitions=3, replication_factor=3) for _ in range(2)]


def put(cluster, topic, payloads, node=1, **more):
    rows = [{"topic": topic, "key": str(payload), "payload": payload, **more} for payload in payloads]
    cluster.post(node, "/produce", json=rows).raise_for_status()


def test_stream_sends_new_records_in_order_of_each_partition(cluster, topics):
    one, two = topics
    put(cluster, one, ["before"])
    with (
        listening(cluster, 2, f"/topics/{one}/stream") as alone,
        listening(cluster, 3, f"/stream?topics={one},{two}") as both,
    ):
        put(cluster, one, range(200))
        put(cluster, two, range(100))
        wait_until(lambda: len(alone.events) == 200 and len(both.events) == 300, "all events")
        assert sorted(alone.payloads()) == list(range(200))
        assert sorted(both.payloads(two)) == list(range(100))
        offsets = {}
        for name, event in both.events:
            assert name == "message"
            place = event["topic"], event["partition"]
            assert event["offset"] == offsets.get(place, event["offset"])
            offsets[place] = event["offset"] + 1
    with listening(cluster, 1, f"/topics/{one}/stream?topics={two}&from=earliest") as all_of_it:
        wait_until(lambda: len(all_of_it.events) == 301, "all events from the beginning")
        assert "before" in all_of_it.payloads(one)


def test_a_listener_that_comes_back_misses_nothing_and_gets_nothing_twice(cluster, topics):
    one, two = topics
    seen, last_id = [], None
    for turn, node in enumerate((1, 2, 3)):
        with listening(cluster, node, f"/stream?topics={one},{two}", last_id) as listener:
            put(cluster, one, range(turn * 100, turn * 100 + 50))
            wait_until(lambda: len(seen) + len(listener.events) >= turn * 100 + 50, "events")  # noqa: B023
        seen += listener.payloads()
        last_id = listener.last_id
        put(cluster, one, range(turn * 100 + 50, turn * 100 + 100))
    with listening(cluster, 1, f"/stream?topics={one},{two}", last_id) as listener:
        wait_until(lambda: len(seen) + len(listener.events) >= 300, "the rest")
        seen += listener.payloads()
    assert sorted(seen) == list(range(300))


def test_deleted_records_are_a_gap_and_a_deleted_topic_is_the_end(cluster, topics):
    one, _ = topics
    put(cluster, one, range(10), partition=0)
    with listening(cluster, 1, f"/topics/{one}/stream?from=earliest") as listener:
        wait_until(lambda: len(listener.events) == 10, "ten events")
    put(cluster, one, range(10, 20), partition=0)
    Admin(cluster.bootstrap).delete_records({TopicPartition(one, 0): 15})
    with listening(cluster, 2, f"/topics/{one}/stream", listener.last_id) as later:
        wait_until(lambda: len(later.events) == 6, "a gap and five events")
        name, gap = later.events[0]
        assert (name, gap["partition"], gap["from"], gap["to"]) == ("gap", 0, 10, 15)
        assert later.payloads() == list(range(15, 20))
        cluster.delete(1, f"/topics/{one}").raise_for_status()
        wait_until(lambda: later.events[-1][0] == "end", "the end")
        assert later.events[-1][1]["error"] == "unknown-topic-or-partition"


def test_new_partitions_are_read_from_their_beginning(cluster, topics):
    one, _ = topics
    with listening(cluster, 1, f"/topics/{one}/stream") as listener:
        Admin(cluster.bootstrap).add_partitions(one, 4)
        wait_until(lambda: len(cluster.get(2, f"/topics/{one}").json()["partitions"]) == 4, "a fourth partition")
        put(cluster, one, ["new"], node=2, partition=3)
        wait_until(lambda: listener.payloads() == ["new"], "the event")
        assert "3=1" in listener.last_id


def test_stream_continues_while_a_broker_is_killed(cluster, topics):
    one, _ = topics
    with listening(cluster, 1, f"/topics/{one}/stream") as near, listening(cluster, 2, f"/topics/{one}/stream") as far:
        put(cluster, one, range(50))
        wait_until(lambda: len(near.events) == 50 and len(far.events) == 50, "the first events")
        cluster.local.kill(3)
        put(cluster, one, range(50, 150))
        for listener in (near, far):
            wait_until(lambda listener=listener: len(listener.events) >= 150, "events after the kill")
            assert sorted(listener.payloads()) == list(range(150))


def test_streams_that_cannot_be_are_refused(cluster, topics):
    one, _ = topics
    for path, status in (
        ("/stream", 400),
        ("/stream?topics=", 400),
        ("/stream?topics=no-such", 404),
        (f"/stream?topics={one},", 404),
        (f"/topics/{one}/stream?from=yesterday", 400),
        (f"/topics/{one}/stream?topic=x", 400),
        ("/topics/no-such/stream", 404),
        ("/stream?topics=" + ",".join(f"t{number}" for number in range(17)), 400),
    ):
        found = cluster.get(1, path)
        assert found.status_code == status, (path, found.text)
        assert found.json()["message"]
    bad = cluster.get(1, f"/topics/{one}/stream", headers={"last-event-id": "x"})
    assert (bad.status_code, bad.json()["error"]) == (400, "bad-event-id")
    assert cluster.ask(1, "HEAD", f"/topics/{one}/stream").status_code == 200
