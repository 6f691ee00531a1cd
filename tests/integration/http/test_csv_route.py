"""POST /topics/{name}/csv on real brokers: good files, broken ones, large ones, and a broker killed in the middle."""

import gzip
import json
import random
import threading
import time
from pathlib import Path

import httpx
import pytest
from support.waiting import wait_until

from yak.server.http.routes.csv_upload import ENCODINGS


@pytest.fixture
def topic(cluster, new_name):
    configs = {"min.insync.replicas": "2"}
    return cluster.make_topic(new_name(), partitions=3, replication_factor=3, configs=configs)


def upload(cluster, topic, data, node=1, headers=None, **query):
    return cluster.post(node, f"/topics/{topic}/csv", content=data, params=query, headers=headers or {}, timeout=120)


def rows_of(cluster, topic):
    """(key, payload) of all records of all partitions, in order within each."""
    found = []
    for partition in range(3):
        offset = 0
        while True:
            answer = cluster.get(
                1, f"/consume?topic={topic}&partition={partition}&offset={offset}&max_messages=10000"
            ).json()
            found += [(record["key"], record["payload"]) for record in answer["records"]]
            offset = answer["next_offset"]
            if offset == answer["high_watermark"]:
                break
    return found


def test_rows_become_objects_and_a_column_the_key(cluster, topic):
    data = b'\xef\xbb\xbfid,name,note\r\n1,tea,"a ""b"", c"\r\n2,milk,"two\r\nlines"\r\n,no key,\r\n\r\n'
    found = upload(cluster, topic, data, node=2, key="id")
    assert found.status_code == 200, found.text
    body = found.json()
    assert (body["rows"], body["written"], body["failed"], body["failures"]) == (3, 3, 0, [])
    assert (body["columns"], body["received_bytes"]) == (["id", "name", "note"], len(data))
    assert sum(body["partitions"].values()) == 3
    assert sorted(rows_of(cluster, topic), key=str) == sorted(
        [
            ("1", {"id": "1", "name": "tea", "note": 'a "b", c'}),
            ("2", {"id": "2", "name": "milk", "note": "two\nlines"}),
            (None, {"id": "", "name": "no key", "note": ""}),
        ],
        key=str,
    )
    # the same key lands where POST /produce puts it
    place = cluster.post(1, "/produce", json={"topic": topic, "key": "2", "payload": 1}).json()
    records = cluster.get(1, f"/consume?topic={topic}&partition={place['partition']}").json()["records"]
    assert [record["key"] for record in records].count("2") == 2


def test_other_delimiters_and_encodings(cluster, topic):
    assert (
        upload(cluster, topic, "a;b\né;1\n".encode("utf-16"), delimiter=";", encoding="utf-16").json()["written"] == 1
    )
    assert (
        upload(cluster, topic, "a\tb\nü\t2\n".encode("latin-1"), delimiter="tab", encoding="latin-1").json()["written"]
        == 1
    )
    assert sorted(payload["a"] for _, payload in rows_of(cluster, topic)) == ["é", "ü"]


def test_rows_that_cannot_be_are_counted_and_the_first_are_named(cluster, topic):
    data = b"a,b\n" + b"1,2,3\n" * 25 + b"ok,1\n" + b"\xff\xfe,1\n" + b'"open,1\n' + b"ok,2\n"
    body = upload(cluster, topic, data).json()
    assert (body["rows"], body["written"], body["failed"]) == (29, 2, 27)
    assert len(body["failures"]) == 20
    assert body["failures"][0] == {"line": 2, "why": "it has 3 cells, the header has 2"}
    body = upload(cluster, topic, b'a,b\n\xff,1\n"x"y,1\n1\nok,3\n"open,1\n').json()
    assert [(each["line"], each["why"]) for each in body["failures"]] == [
        (2, "it has bytes that are not utf-8"),
        (3, "it is not CSV: ',' expected after '\"'"),
        (4, "it has 1 cells, the header has 2"),
        (6, "a quote is not closed"),
    ]
    assert sorted(payload["b"] for _, payload in rows_of(cluster, topic)) == ["1", "2", "3"]
    large = upload(cluster, topic, b"a\n" + b"x" * 1_100_000 + b"\nok\n").json()
    assert (large["written"], large["failed"]) == (1, 1)


IMPOSSIBLE = [
    (b"", {}, "no-header"),
    (b"\n\n", {}, "no-header"),
    (b"1,2,3\n4,5,6\n", {}, "no-header"),
    (b"a,,c\n1,2,3\n", {}, "no-header"),
    (b"a,b,a\n1,2,3\n", {}, "bad-header"),
    (b"\xff,b\n1,2\n", {}, "bad-header"),
    (b'"a,b\n1,2\n', {}, "bad-header"),
    (b"a,b\n1,2\n", {"key": "c"}, "unknown-column"),
    (b"a,b\n1,2\n", {"encoding": "klingon"}, "bad-parameter"),
    (b"a,b\n1,2\n", {"delimiter": ",,"}, "bad-parameter"),
    (b"a,b\n1,2\n", {"delimiter": '"'}, "bad-parameter"),
    (b"a,b\n1,2\n", {"delimeter": ";"}, "bad-parameter"),
]


def test_files_that_cannot_be_are_refused_before_anything_is_written(cluster, topic):
    for data, query, error in IMPOSSIBLE:
        for accept in ("*/*", "application/x-ndjson"):
            found = upload(cluster, topic, data, headers={"accept": accept}, **query)
            assert (found.status_code, found.json()["error"]) == (400, error), (data, query, found.text)
            assert found.json()["hint"]
    assert rows_of(cluster, topic) == []


def test_a_compressed_file_is_refused_instead_of_read_as_its_text(cluster, topic):
    zipped = gzip.compress(b"id,name\n1,tea\n")
    found = upload(cluster, topic, zipped, headers={"content-encoding": "gzip"}, encoding="latin-1")
    assert (found.status_code, found.json()["error"]) == (415, "content-encoding")
    assert found.headers["accept-encoding"] == "identity"
    assert rows_of(cluster, topic) == []
    plain = upload(cluster, topic, b"id,name\n1,tea\n", headers={"content-encoding": "Identity"})
    assert plain.json()["written"] == 1


def test_a_form_and_a_topic_that_cannot_be_are_refused(cluster, topic):
    form = cluster.client.post(cluster.url(1, f"/topics/{topic}/csv"), files={"f": b"a,b\n1,2\n"})
    assert (form.status_code, form.json()["error"]) == (415, "not-csv")
    assert upload(cluster, "a b", b"a\n1\n").json()["error"] == "invalid-topic-exception"
    assert upload(cluster, "__consumer_offsets", b"a\n1\n").status_code == 400


EDGES = {
    "nothing": (b"", "no-header"),
    "an odd byte": (b"\x81", None),
    "a mark of UTF-16": (b"\xff\xfe", None),
    "a mark of UTF-16 and an odd byte": (b"\xff\xfe\x00", None),
    "a mark of UTF-8": (b"\xef\xbb\xbf", None),
    "UTF-8": (b"id,name\n1,tea\n", None),
    "random bytes": (random.Random(7).randbytes(5000), None),
    "random bytes behind a mark": (b"\xff\xfe" + random.Random(8).randbytes(5000), None),
}
"""Bodies, and their error where that is the same in all encodings."""


@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_upload_of_any_bytes_is_written_or_a_client_error(cluster, topic, encoding):
    for what, (data, error) in EDGES.items():
        for accept in ("*/*", "application/x-ndjson"):
            found = upload(cluster, topic, data, headers={"accept": accept}, encoding=encoding)
            assert found.status_code in (200, 400), f"{what}: {found.text}"
            last = json.loads(found.text.splitlines()[-1])
            assert last.get("error") != "internal-error", f"{what}: {found.text}"
            assert error is None or last.get("error") == error, f"{what}: {found.text}"
    plain = upload(cluster, topic, b"id,name\n1,tea\n", encoding="utf-16")
    assert (plain.status_code, plain.json()["error"]) == (400, "no-byte-order")
    for node in (1, 2, 3):
        assert " ERROR " not in Path(cluster.local.log_path(f"node-{node}")).read_text()


def slow_file(rows, pause_seconds):
    yield b"id,text\n"
    for first in range(0, rows, 100):
        time.sleep(pause_seconds)
        yield b"".join(b"%d,%s\n" % (number, b"x" * 50) for number in range(first, first + 100))


def test_progress_comes_while_the_file_is_sent(cluster, topic):
    address = cluster.url(3, f"/topics/{topic}/csv?key=id")
    headers = {"accept": "application/x-ndjson", "content-type": "text/csv"}
    with httpx.Client(trust_env=False, timeout=60) as client:
        found = client.post(address, content=slow_file(6000, 0.05), headers=headers)
    assert found.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in found.text.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert len(lines) >= 3
    written = [line["written"] for line in lines]
    assert written == sorted(written)
    assert (lines[-1]["rows"], lines[-1]["written"], lines[-1]["failed"]) == (6000, 6000, 0)
    assert any(0 < each < 6000 for each in written)


def test_upload_continues_while_a_broker_is_killed_and_writes_each_row_once(cluster, topic):
    found = {}

    def send():
        with httpx.Client(trust_env=False, timeout=120) as client:
            address = cluster.url(1, f"/topics/{topic}/csv?key=id")
            found["answer"] = client.post(address, content=slow_file(20_000, 0.01))

    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: len(rows_of(cluster, topic)) > 500, "some rows")
    cluster.local.kill(3)
    sending.join()
    assert found["answer"].status_code == 200, found["answer"].text
    assert (found["answer"].json()["written"], found["answer"].json()["failed"]) == (20_000, 0)
    assert sorted(int(key) for key, _ in rows_of(cluster, topic)) == list(range(20_000))


def test_upload_that_cannot_continue_reports_how_many_rows_were_written(cluster, topic):
    def file():
        yield b"id\n" + b"".join(b"%d\n" % number for number in range(600))
        wait_until(lambda: len(rows_of(cluster, topic)) >= 500, "the first batch")
        for node in (2, 3):
            cluster.local.kill(node)
        yield b"".join(b"%d\n" % number for number in range(600))

    with httpx.Client(trust_env=False, timeout=60) as client:
        found = client.post(cluster.url(1, f"/topics/{topic}/csv"), content=file())
    body = found.json()
    assert found.status_code in (503, 504), found.text
    assert "all lines to" in body["hint"]
    assert body["written"] >= 500
    assert body["written"] + body["failed"] == body["rows"] < 1200
