"""Consumer groups over HTTP on real brokers: what a client of Confluent's REST proxy v2 does, and what goes wrong."""

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import confluent_kafka
import httpx
import pytest
from confluent_kafka.admin import AdminClient
from support.waiting import wait_until

from yak.client.admin import Admin

V2 = "application/vnd.kafka.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
_made: list["RestConsumer"] = []
"""The instances of the current test, deleted at its end."""


class RestConsumer:
    """One instance, asked by its base_uri."""

    def __init__(self, cluster, node: int, group: str, **settings: object) -> None:
        self.client = cluster.client
        made = cluster.post(
            node,
            f"/consumers/{group}",
            content=json.dumps({"auto.offset.reset": "earliest", **settings}),
            headers={"content-type": V2, "accept": V2},
        )
        assert (made.status_code, made.headers["content-type"]) == (200, V2), made.text
        self.name = made.json()["instance_id"]
        self.uri = made.json()["base_uri"]
        assert self.uri == cluster.url(node, f"/consumers/{group}/instances/{quote(self.name, safe='')}")
        self.accept = JSON if settings.get("format") == "json" else BINARY
        _made.append(self)

    def ask(self, method: str, path: str, body: object = None, **more: object) -> httpx.Response:
        more.setdefault("headers", {"accept": V2, **({} if body is None else {"content-type": V2})})
        content = None if body is None else json.dumps(body)
        return self.client.request(method, f"{self.uri}{path}", content=content, **more)

    def did(self, method: str, path: str, body: object = None) -> None:
        """What has no answer but that it is done."""
        answer = self.ask(method, path, body)
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def read(self, timeout_ms: int = 1_000, **query: object) -> list[dict]:
        answer = self.ask("GET", "/records", params={"timeout": timeout_ms, **query}, headers={"accept": self.accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, self.accept), answer.text
        return answer.json()

    def read_until(self, count: int) -> list[dict]:
        found: list[dict] = []
        try:
            wait_until(lambda: found.extend(self.read()) or len(found) >= count, f"{count} records")
        except AssertionError as error:
            raise AssertionError(f"{error}; read so far: {found}; assigned: {self.assigned()}") from error
        assert len(found) == count
        return found

    def assigned(self) -> list[int]:
        return [each["partition"] for each in self.ask("GET", "/assignments").json()["partitions"]]

    def committed(self, *partitions: tuple[str, int]) -> dict[int, int]:
        body = {"partitions": [{"topic": topic, "partition": number} for topic, number in partitions]}
        answer = self.ask("GET", "/offsets", body if partitions else None)
        assert answer.status_code == 200, answer.text
        return {each["partition"]: each["offset"] for each in answer.json()["offsets"]}


@pytest.fixture(autouse=True)
def _instances_deleted() -> Iterator[None]:
    """A test leaves no instance, which would count for the limit of a later test."""
    yield
    while _made:
        with contextlib.suppress(httpx.TransportError):
            _made.pop().ask("DELETE", "")


@pytest.fixture
def topic(cluster, new_name):
    """Four partitions, on all three brokers."""
    return cluster.make_topic(new_name(), assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]])


def produce(cluster, topic: str, values: list[bytes], key: bytes | None = None) -> None:
    """To all partitions in turn."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, key, partition=number % 4)
    assert producer.flush(30) == 0


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def values(records: list[dict]) -> list[int]:
    return sorted(each["value"] for each in records)


def problem(answer: httpx.Response) -> tuple[int, int]:
    """Status and code of an error, which has both forms and the content type that was asked for."""
    assert set(answer.json()) == {"error", "message", "hint", "error_code"}
    assert "Traceback" not in answer.text
    return answer.status_code, answer.json()["error_code"]


def members(cluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return len(admin.describe_consumer_groups([group])[group].result().members)


# --------------------------------------------------------------------------------------------------- as it should be


def test_json_is_read_committed_and_read_on_by_another_instance(cluster, topic, new_name):
    group = new_name()
    first = RestConsumer(cluster, 1, group, format="json", name="first", **{"auto.commit.enable": "false"})
    first.did("POST", "/subscription", {"topics": [topic]})
    assert first.ask("GET", "/subscription").json() == {"topics": [topic]}
    produce(cluster, topic, numbers(0, 100), b'{"a": [1.50, "\xc3\xa9"]}')
    found = first.read_until(100)
    assert values(found) == list(range(100))
    assert all(each["key"] == {"a": [1.5, "é"]} and each["topic"] == topic for each in found)
    assert first.read(100) == []
    assert first.committed((topic, 0)) == {}
    committed = first.ask("POST", "/offsets")
    assert (committed.status_code, committed.json()) == (200, [])
    assert first.committed() == first.committed(*((topic, n) for n in range(4))) == dict.fromkeys(range(4), 25)
    produce(cluster, topic, numbers(100, 120))
    assert values(first.read_until(20)) == list(range(100, 120))
    first.did("DELETE", "")

    # The second one, at another broker, begins where the first one committed.
    second = RestConsumer(cluster, 2, group, format="json", **{"auto.commit.enable": False})
    second.did("POST", "/subscription", {"topics": [topic]})
    assert values(second.read_until(20)) == list(range(100, 120))


def test_bytes_are_base64_and_offsets_are_those_of_the_last_record(cluster, topic, new_name):
    group = new_name()
    one = RestConsumer(cluster, 3, group, **{"auto.commit.enable": "false"})
    produce(cluster, topic, [bytes([n, 255]) for n in range(40)])
    one.did("POST", "/assignments", {"partitions": [{"topic": topic, "partition": 2}]})
    assert one.assigned() == [2]
    found = one.read_until(10)
    assert [base64.b64decode(each["value"]) for each in found] == [bytes([n, 255]) for n in range(2, 40, 4)]
    assert [(each["offset"], each["key"]) for each in found] == [(n, None) for n in range(10)]
    mark = {"topic": topic, "partition": 2, "offset": 4, "metadata": "né"}
    assert one.ask("POST", "/offsets?async=false", {"offsets": [mark]}).json() == []
    answer = one.ask("GET", "/offsets").json()
    assert answer == {"offsets": [mark | {"offset": 5}]}
    one.did("DELETE", "")
    again = RestConsumer(cluster, 3, group)
    again.did("POST", "/assignments", {"partitions": [{"topic": topic, "partition": 2}]})
    assert again.read_until(5)[0]["offset"] == 5


def test_partitions_assigned_right_after_an_unsubscribe_stay_and_are_committed(cluster, topic, new_name):
    one = RestConsumer(cluster, 2, new_name(), format="json", **{"auto.commit.enable": "false"})
    produce(cluster, topic, numbers(0, 8))
    one.did("POST", "/subscription", {"topics": [topic]})
    one.did("DELETE", "/subscription")
    one.did("POST", "/assignments", {"partitions": [{"topic": topic, "partition": 1}]})
    assert values(one.read_until(2)) == [1, 5]
    assert one.ask("POST", "/offsets").status_code == 200
    assert (one.assigned(), one.committed()) == ([1], {1: 2})


@pytest.mark.parametrize(
    "steps", ["commit beginning read", "commit beginning read commit", "commit beginning read end"]
)
def test_delete_after_a_commit_and_a_seek_commits_the_position_after_the_last_record(cluster, topic, new_name, steps):
    group, place = new_name(), {"topic": topic, "partition": 0}
    produce(cluster, topic, numbers(0, 12))
    one = RestConsumer(cluster, 1, group, format="json")
    one.did("POST", "/subscription", {"topics": [topic]})
    one.read_until(12)
    for step in steps.split():
        if step == "read":
            assert values(one.read_until(3)) == [0, 4, 8]
        elif step == "commit":
            assert one.ask("POST", "/offsets").status_code == 200
        else:
            one.did("POST", f"/positions/{step}", {"partitions": [place]})
    one.did("DELETE", "")
    other = RestConsumer(cluster, 2, group, format="json")
    assert other.committed(*((topic, n) for n in range(4))) == dict.fromkeys(range(4), 3)


def test_idle_instances_share_the_partitions(cluster, topic, new_name):
    group = new_name()
    both = [RestConsumer(cluster, node, group, format="json") for node in (1, 2)]
    for each in both:
        each.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: [len(each.assigned()) for each in both] == [2, 2], "two partitions each")
    assert sorted(both[0].assigned() + both[1].assigned()) == [0, 1, 2, 3]
    produce(cluster, topic, numbers(0, 40))
    found = [each.read_until(20) for each in both]
    assert sorted(values(found[0]) + values(found[1])) == list(range(40))
    assert members(cluster, group) == 2
    # Deleted means that it has left: the other one has all without a session that ends.
    both[0].did("DELETE", "")
    assert members(cluster, group) == 1
    wait_until(lambda: both[1].assigned() == [0, 1, 2, 3], "all partitions", 5.0)
    both[1].did("DELETE", "")
    assert members(cluster, group) == 0


def test_instance_full_of_unread_records_takes_part_in_a_rebalance(cluster, topic, new_name):
    group = new_name()
    produce(cluster, topic, numbers(0, 20_000))
    idle = RestConsumer(cluster, 1, group, format="json", **{"auto.commit.enable": "false"})
    idle.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: len(idle.assigned()) == 4, "all partitions")
    time.sleep(1)  # it takes what it has room for
    other = RestConsumer(cluster, 2, group, format="json", **{"auto.commit.enable": "false"})
    other.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: len(idle.assigned()) == len(other.assigned()) == 2, "two partitions each", 20.0)
    found = [each.read_until(10_000) for each in (idle, other)]
    assert sorted(values(found[0]) + values(found[1])) == list(range(20_000))


def test_positions_move_to_offsets_times_and_both_ends(cluster, new_name):
    topic = new_name()
    # The records are of 2023: older than the retention that a topic has else.
    Admin(cluster.bootstrap).create_topic(topic, assignment=[[1, 2, 3]], configs={"retention.ms": "-1"})
    one = RestConsumer(cluster, 1, new_name(), format="json", **{"auto.commit.enable": "false"})
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + number * 1_000)
    assert producer.flush(30) == 0
    place = {"topic": topic, "partition": 0}
    one.did("POST", "/assignments", {"partitions": [place]})
    one.did("POST", "/positions", {"offsets": [place | {"offset": 6}]})
    assert values(one.read_until(4)) == [6, 7, 8, 9]
    one.did("POST", "/positions/beginning", {"partitions": [place]})
    assert values(one.read_until(10)) == list(range(10))
    one.did("POST", "/positions", {"timestamps": [place | {"timestamp": "2023-11-14T22:13:28Z"}]})
    assert values(one.read_until(2)) == [8, 9]
    one.did("POST", "/positions/beginning", {"partitions": [place]})
    one.did("POST", "/positions", {"timestamps": [place | {"timestamp": "2100-01-01T00:00:00Z"}]})
    assert one.read(300) == []
    one.did("POST", "/positions/beginning", {"partitions": [place]})
    one.did("POST", "/positions/end", {"partitions": [place]})
    assert one.read(300) == []
    # A position counts for a commit, also when nothing was read there.
    one.ask("POST", "/offsets")
    assert one.committed() == {0: 10}


def test_a_pattern_follows_topics_that_come(cluster, new_name):
    stem = new_name()
    one = RestConsumer(cluster, 1, stem, format="json")
    one.did("POST", "/subscription", {"topic_pattern": f"{stem}-(a|b)"})
    assert one.ask("GET", "/subscription").json() == {"topics": []}
    admin = Admin(cluster.bootstrap)
    for letter in "abc":
        admin.create_topic(f"{stem}-{letter}", assignment=[[1, 2]])
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        producer.produce(f"{stem}-{letter}", json.dumps(letter))
        producer.flush(30)
    found: list[str] = []
    wait_until(lambda: found.extend(each["value"] for each in one.read()) or len(found) >= 2, "both topics")
    assert sorted(found) == ["a", "b"]
    assert one.ask("GET", "/subscription").json() == {"topics": [f"{stem}-a", f"{stem}-b"]}
    one.did("DELETE", "/subscription")
    assert one.ask("GET", "/subscription").json() == {"topics": []}
    assert one.assigned() == []
    one.did("POST", "/subscription", {"topics": [f"{stem}-c"]})
    assert [each["value"] for each in one.read_until(1)] == ["c"]


def test_a_long_poll_ends_with_the_first_records(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), format="json")
    one.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: len(one.assigned()) == 4, "the assignment")
    found: list[dict] = []
    reading = threading.Thread(target=lambda: found.extend(one.read(60_000)))
    reading.start()
    time.sleep(0.5)
    produce(cluster, topic, [b"1"])
    reading.join(20)
    assert values(found) == [1]


def test_answers_stay_within_max_bytes_and_wait_for_min_bytes(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), **{"fetch.min.bytes": "1500", "consumer.request.timeout.ms": 60_000})
    one.did("POST", "/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    produce(cluster, topic, [b"x" * 1_000] * 40)
    counts = []
    wait_until(lambda: counts.append(len(one.read(60_000, max_bytes=2_500))) or sum(counts) >= 10, "ten records")
    assert counts == [2, 2, 2, 2, 2]
    # One that is larger than that comes alone, or it never would.
    produce(cluster, topic, [b"y" * 5_000])
    assert [len(base64.b64decode(each["value"])) for each in one.read(60_000, max_bytes=10)] == [5_000]
    started = time.monotonic()
    produce(cluster, topic, [b"z"])
    assert len(one.read(1_000)) == 1
    assert time.monotonic() - started > 0.9, "one byte is no 1500: the time has to pass"


# ----------------------------------------------------------------------------------------------- when things go wrong


def test_records_of_a_read_that_the_client_abandons_are_returned_by_the_next_read(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), format="json", **{"fetch.min.bytes": 1_000_000})
    one.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: len(one.assigned()) == 4, "all partitions")
    produce(cluster, topic, numbers(0, 12))
    with pytest.raises(httpx.ReadTimeout):
        one.ask("GET", "/records", params={"timeout": 60_000}, headers={"accept": JSON}, timeout=1.0)
    # The read that nobody waits for ends by itself.
    wait_until(lambda: one.ask("GET", "/records", params={"timeout": 1}).status_code == 200, "its turn", 5.0)
    one.did("POST", "/positions/beginning", {"partitions": [{"topic": topic, "partition": n} for n in range(4)]})
    with pytest.raises(httpx.ReadTimeout):
        one.ask("GET", "/records", params={"timeout": 60_000}, headers={"accept": JSON}, timeout=1.0)
    answers: list[httpx.Response] = []

    def given() -> list[int]:
        answers.append(one.ask("GET", "/records", params={"timeout": 200}, headers={"accept": JSON}))
        return values([each for answer in answers if answer.status_code == 200 for each in answer.json()])

    wait_until(lambda: len(given()) >= 12, "the records")
    assert given() == list(range(12))


def test_consumer_instance_serves_one_exclusive_request_beside_reads_and_delete(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), format="json")
    one.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: len(one.assigned()) == 4, "the assignment")
    answers: list[httpx.Response] = []
    reading = threading.Thread(target=lambda: answers.append(one.ask("GET", "/records", params={"timeout": 60_000})))
    reading.start()
    wait_until(lambda: one.ask("POST", "/offsets").status_code == 409, "the read")
    assert problem(one.ask("GET", "/records")) == (409, 409)
    assert one.assigned() == [0, 1, 2, 3]
    assert one.committed() == {}
    one.did("DELETE", "")
    reading.join(20)
    assert problem(answers[0]) == (404, 40403)


def test_record_that_is_not_json_is_reported_with_its_offset_and_can_be_skipped(cluster, new_name):
    topic = new_name()
    Admin(cluster.bootstrap).create_topic(topic, assignment=[[1, 2]])
    one = RestConsumer(cluster, 1, new_name(), format="json")
    one.did("POST", "/subscription", {"topics": [topic]})
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for value in (b"1", b"NaN", b"3"):
        producer.produce(topic, value)
    producer.flush(30)
    assert values(one.read_until(1)) == [1]
    for _ in range(2):
        refused = one.ask("GET", "/records", params={"timeout": 1_000})
        assert problem(refused) == (422, 42203)
        assert "offset 1 of" in refused.json()["message"]
    one.did("POST", "/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]})
    assert values(one.read_until(1)) == [3]


def test_a_leader_that_is_killed_while_an_instance_polls_loses_nothing(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), format="json", **{"auto.commit.enable": "false"})
    one.did("POST", "/subscription", {"topics": [topic]})
    produce(cluster, topic, numbers(0, 40))
    found = one.read_until(40)
    read: list[dict] = []
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            read.extend(one.read(1_000))

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        cluster.local.kill(3)
        produce(cluster, topic, numbers(40, 80))
        wait_until(lambda: len(read) >= 40, "the records after the kill")
    finally:
        stop.set()
        polling.join(30)
    # Where the coordinator died, what was not committed may come twice; nothing is left out.
    assert {each["value"] for each in found + read} == set(range(80))
    assert one.ask("POST", "/offsets").status_code == 200


@pytest.mark.parametrize("count", [0, 3], ids=["empty", "with-records"])
def test_commit_after_the_topic_was_created_again_commits_no_position_in_the_earlier_topic(cluster, new_name, count):
    """The group would not get the first records of the topic."""
    topic = new_name()
    admin = Admin(cluster.bootstrap)
    admin.create_topic(topic, assignment=[[1]])
    cluster.produce(topic, 5)
    one = RestConsumer(cluster, 1, new_name(), **{"auto.commit.enable": "false"})
    one.did("POST", "/subscription", {"topics": [topic]})
    one.read_until(5)
    admin.delete_topic(topic)
    admin.create_topic(topic, assignment=[[1]])
    cluster.produce(topic, count)

    def is_committed() -> bool:
        assert one.ask("POST", "/offsets").status_code == 200
        return one.committed((topic, 0)) == {0: 0}

    wait_until(is_committed, "a commit of the position in the new topic")


def test_killed_broker_loses_its_consumer_instances_and_other_instances_continue(cluster, topic, new_name):
    group = new_name()
    both = [RestConsumer(cluster, node, group, format="json") for node in (1, 3)]
    for each in both:
        each.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: [len(each.assigned()) for each in both] == [2, 2], "two partitions each")
    cluster.local.kill(3)
    wait_until(lambda: both[0].assigned() == [0, 1, 2, 3], "all partitions, after the session of 10 s")
    produce(cluster, topic, numbers(0, 20))
    assert values(both[0].read_until(20)) == list(range(20))


def preferred_leaders_lead(cluster) -> bool:
    topic = Admin(cluster.bootstrap).metadata().topics["__consumer_offsets"]
    return all(each.leader == each.replicas[0] for each in topic.partitions)


def test_a_broker_that_stops_lets_its_instances_leave(cluster, topic, new_name):
    group = new_name()
    both = {node: RestConsumer(cluster, node, group, format="json") for node in (1, 3)}
    for each in both.values():
        each.did("POST", "/subscription", {"topics": [topic]})
    wait_until(lambda: [len(each.assigned()) for each in both.values()] == [2, 2], "two partitions each")
    # The next coordinator loads a group as it was before the last rebalance, with the member that left (as in Kafka): so
    # the coordinator must not be the broker that stops, also not a moment later, as the preferred leader.
    wait_until(lambda: preferred_leaders_lead(cluster), "preferred leaders of the groups' topic", 30.0)
    coordinator = cluster.get(2, f"/api/groups/{group}").json()["coordinator"]
    stopped, other = (1, 3) if coordinator == 3 else (3, 1)
    leaving, staying = both[stopped], both[other]
    produce(cluster, topic, numbers(0, 40))
    assert len(leaving.read_until(20)) == 20
    answers: list[httpx.Response] = []
    reading = threading.Thread(
        target=lambda: answers.append(leaving.ask("GET", "/records", params={"timeout": 60_000}))
    )
    reading.start()
    time.sleep(0.5)
    cluster.local.restart(stopped)
    reading.join(20)
    assert answers[0].status_code in (200, 404), "the read ended in order"
    # It leaves, in place of a wait for its session to end; and what it had given was committed as it left.
    wait_until(lambda: staying.assigned() == [0, 1, 2, 3], "all partitions", 30.0)
    lines = Path(cluster.local.log_path(f"node-{coordinator}")).read_text().splitlines()
    of_group = [line for line in lines if f"group={group} " in line]
    assert any("group-member-left" in line for line in of_group), "\n".join(of_group)
    assert not any("group-member-expired" in line for line in of_group)
    assert len(staying.read_until(20)) == 20
    assert staying.read(500) == []
    assert problem(leaving.ask("GET", "/assignments")) == (404, 40403)


# -------------------------------------------------------------------------------------------------------- bad input


def test_instances_that_are_not_there(cluster, topic, new_name):
    group = new_name()
    one = RestConsumer(cluster, 1, group, name="there")
    place = {"partitions": [{"topic": topic, "partition": 0}]}
    uri = one.uri
    for one.uri in (cluster.url(1, f"/consumers/{group}/instances/nobody"), uri.replace(group, "x"), uri):
        if one.uri == uri:
            one.did("DELETE", "")
        for method, path, body in (
            ("GET", "/records", None),
            ("GET", "/subscription", None),
            ("POST", "/subscription", {"topics": [topic]}),
            ("DELETE", "/subscription", None),
            ("GET", "/assignments", None),
            ("POST", "/assignments", place),
            ("GET", "/offsets", None),
            ("POST", "/offsets", None),
            ("POST", "/positions", {"offsets": []}),
            ("POST", "/positions/beginning", place),
            ("POST", "/positions/end", place),
            ("DELETE", "", None),
        ):
            assert problem(one.ask(method, path, body)) == (404, 40403), (method, path)


def test_names_formats_and_bodies_that_cannot_be(cluster, new_name):
    group = f"/consumers/{new_name()}"
    for body, wanted in (
        (b'{"name": "a", ', (400, 400)),
        (b'{"format": "avro"}', (422, 422)),
        (b'{"name": "a/b"}', (422, 42204)),
    ):
        assert problem(cluster.post(1, group, content=body, headers={"content-type": V2})) == wanted, body
    assert problem(cluster.post(1, "/consumers/" + "g" * 256)) == (422, 42204)
    assert problem(cluster.post(1, "/consumers/a%00b")) == (422, 42204)
    assert problem(cluster.post(1, group, content=b"{}", headers={"content-type": "text/xml"})) == (415, 415)
    assert problem(cluster.post(1, group, headers={"accept": "text/html"})) == (406, 406)
    assert problem(cluster.post(1, f"{group}?name=a")) == (400, 400)
    assert cluster.post(1, f"{group}/instances").status_code == 404


def test_names_that_are_taken(cluster, new_name):
    group = new_name()
    one = RestConsumer(cluster, 1, group, name="Anna & Otto 100%?#é")
    again = cluster.post(1, f"/consumers/{group}", json={"name": one.name})
    assert problem(again) == (409, 40902)
    assert one.ask("GET", "/subscription").json() == {"topics": []}
    one.did("DELETE", "")
    RestConsumer(cluster, 1, group, name="Anna & Otto 100%?#é").did("DELETE", "")


def test_subscribing_and_assigning_exclude_each_other(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name())
    place = {"partitions": [{"topic": topic, "partition": 0}]}
    assert problem(one.ask("GET", "/records")) == (409, 40903)
    assert problem(one.ask("POST", "/positions/end", place)) == (409, 40903)
    assert problem(one.ask("POST", "/subscription", {"topics": [topic], "topic_pattern": "x"})) == (409, 40903)
    one.did("POST", "/subscription", {"topics": [topic]})
    assert problem(one.ask("POST", "/assignments", place)) == (409, 40903)
    assert problem(one.ask("POST", "/subscription", {"topic_pattern": "x"})) == (409, 40903)
    one.did("DELETE", "/subscription")
    one.did("POST", "/assignments", place)
    assert problem(one.ask("POST", "/subscription", {"topics": [topic]})) == (409, 40903)
    assert problem(one.ask("POST", "/positions/end", {"partitions": [{"topic": topic, "partition": 1}]})) == (
        409,
        40903,
    )
    one.did("DELETE", "/subscription")
    assert one.assigned() == []
    one.did("POST", "/subscription", {"topics": [topic]})


def test_requests_to_an_instance_are_checked(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), format="json", **{"auto.offset.reset": "none"})
    one.did("POST", "/subscription", {"topics": [topic]})
    for accept in (BINARY, "application/vnd.kafka.avro.v2+json"):
        assert problem(one.ask("GET", "/records", headers={"accept": accept})) == (406, 40601)
    assert problem(one.ask("GET", "/records", params={"timeout": "soon"})) == (400, 400)
    assert problem(one.ask("GET", "/records", params={"max_bytes": 2**63})) == (400, 400)
    assert problem(one.ask("GET", "/records", params={"limit": 1})) == (400, 400)
    assert problem(one.ask("POST", "/offsets?async=perhaps")) == (400, 400)
    for other_topic, number, code in (("nothing-here", 0, 40401), (topic, 4, 40402)):
        place = {"topic": other_topic, "partition": number}
        assert problem(one.ask("POST", "/offsets", {"offsets": [place | {"offset": 1}]})) == (404, code)
        assert problem(one.ask("GET", "/offsets", {"partitions": [place]})) == (404, code)
    assert problem(one.ask("POST", "/subscription", {"topics": ["^.*"]})) == (422, 422)
    assert problem(one.ask("POST", "/subscription", {"topic_pattern": "(?=a)b"})) == (422, 422)
    refused = wait_until(
        lambda: found if (found := one.ask("GET", "/records")).status_code != 200 else None, "no offset"
    )
    assert problem(refused) == (409, 40903)


def test_positions_after_a_missing_or_outdated_offset_are_read_from(cluster, topic, new_name):
    produce(cluster, topic, numbers(0, 8))
    place = {"topic": topic, "partition": 1}
    one = RestConsumer(cluster, 1, new_name(), format="json", **{"auto.offset.reset": "none"})
    one.did("POST", "/assignments", {"partitions": [place]})
    for offset in (5000, 0):
        refused = wait_until(
            lambda: found if (found := one.ask("GET", "/records")).status_code != 200 else None, "no offset"
        )
        assert problem(refused) == (409, 40903)
        one.did("POST", "/positions", {"offsets": [place | {"offset": offset}]})
    assert values(one.read_until(2)) == [1, 5]


def test_head_request_loses_no_records(cluster, topic, new_name):
    one = RestConsumer(cluster, 1, new_name(), format="json")
    one.did("POST", "/subscription", {"topics": [topic]})
    produce(cluster, topic, numbers(0, 4))
    wait_until(lambda: len(one.assigned()) == 4, "the assignment")
    assert one.ask("HEAD", "/records").status_code == 405
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}):
        assert one.ask("GET", "/records", headers=headers).json()["error"] == "foreign-origin"
    assert values(one.read_until(4)) == [0, 1, 2, 3]


def test_librdkafka_output_does_not_reach_the_brokers_stderr(cluster):
    for node in (1, 2, 3):
        lines = Path(cluster.local.log_path(f"node-{node}")).read_text()
        assert "ready" in lines
        for sign in ("rdkafka#", "%3|", "http-bug", "rest-consumer-bug", "Traceback"):
            assert sign not in lines, sign
