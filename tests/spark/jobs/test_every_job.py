"""Each job over a topic of a real broker: as a batch and as a stream, into every sink, with records that are bad."""

import datetime as dt
import json
import re
import shutil
import time
from collections import Counter
from typing import Any

import pytest

from yak.errors import UsageError, YakError
from yak.spark.driver.errors import translate
from yak.spark.jobs import load

pytestmark = pytest.mark.timeout(600)

END = ("end", {"n": 0.0}, 3_600.0, 0)
"""An hour later: it closes every window before it. Its own window stays open in a stream."""
KEYS = ("a", "b", "c")


def readings(count: int = 120) -> list[tuple[str, object, float, int]]:
    """One a second: a key each third, a number, and every tenth value no JSON."""
    return [
        (KEYS[i % 3], b"nonsense" if i % 10 == 0 else {"n": float(i % 7), "at": i, "who": KEYS[i % 3]}, float(i), i % 2)
        for i in range(count)
    ]


def without_end(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A stream has not closed the last record's window, a batch has."""
    return [row for row in rows if "end" not in row]


def test_counts_in_tumbling_sliding_and_session_windows(bench):
    topic = bench.send([*readings(), ("a", {}, 300.0, 0), END])
    tumbling = bench.stream("counts", topic=topic)
    assert tumbling == bench.batch("counts", topic=topic)
    assert Counter(row[3] for row in tumbling) == {20: 6, 1: 2}
    sliding = bench.stream("counts", topic=topic, slide="30s")
    assert sliding == bench.batch("counts", topic=topic, slide="30s")
    assert sum(row[3] for row in sliding) == 2 * sum(row[3] for row in tumbling)
    sessions = without_end(bench.stream("counts", topic=topic, session_gap="20s"))
    assert sessions == without_end(bench.batch("counts", topic=topic, session_gap="20s"))
    assert sorted((key, count) for _, _, key, count in sessions) == [("a", 1), ("a", 40), ("b", 40), ("c", 40)]


def test_stats_are_those_of_the_numbers_and_say_how_many_were_none(bench):
    topic = bench.send(readings())
    rows = bench.stream("stats", topic=topic, field="n", percentiles="0,50,99.9", window="2m")
    assert rows == bench.batch("stats", topic=topic, field="n", percentiles="0,50,99.9", window="2m")
    for _, _, key, count, malformed, mean, least, most, p0, p50, p99_9 in rows:
        numbers = sorted(float(i % 7) for i in range(120) if i % 10 and KEYS[i % 3] == key)
        assert (count, malformed) == (36, 4)
        assert mean == pytest.approx(sum(numbers) / 36, abs=1e-12)
        assert (least, most, p0, p99_9) == (0.0, 6.0, 0.0, 6.0)
        assert p50 == numbers[17]
    assert len(rows) == 3


def test_records_without_the_number_are_left_out_or_an_error(bench):
    topic = bench.send(readings(20))
    (row,) = bench.batch("stats", topic=topic, field="n", mode="dropmalformed", key_field="who")[:1]
    assert (row[2], row[3], row[4]) == ("a", 6, 0)
    with pytest.raises(Exception, match="SourceError") as caught:
        bench.stream("stats", topic=topic, field="n", mode="failfast")
    text = translate(caught.value)
    assert (text.code, text.exit_code) == ("spark-json", 2)
    assert f"{topic}/0/0" in text.message
    assert "no number at n" in text.why


def test_top_k_names_the_most_frequent_keys_of_each_window(bench):
    many = [(key, {}, float(i), i % 2) for i, key in enumerate("aaaaabbbccdd" * 5)]
    topic = bench.send([*many, END])
    rows = without_end(bench.stream("top-k", topic=topic, k=3))
    assert [row[2:] for row in rows] == [(1, "a", 25), (2, "b", 15), (3, "c", 10)]
    assert rows == without_end(bench.batch("top-k", topic=topic, k=3))


def test_lag_counts_every_record_and_no_latency_is_below_zero(bench):
    topic = bench.send(readings(60))
    rows = bench.stream("lag", topic=topic)
    assert sorted(row[3:5] for row in rows) == [(0, 30), (1, 30)]
    for row in rows:
        least, p50, p95, p99, most = row[5:]
        # The records say that they were produced two hours ago.
        assert 3_600_000 < least <= p50 <= p95 <= p99 <= most


def test_dedupe_lets_a_key_pass_once_within_its_time(bench, tmp_path):
    often = [(KEYS[i % 2], {"at": i}, float(i), i % 2) for i in range(60)]
    topic = bench.send([*often, ("c", {"at": 4_000}, 4_000.0, 0), ("c", {}, 4_001.0, 0)])
    options = {"topic": topic, "available_now": True, "sink": f"parquet:{tmp_path}/out", "within": "10m"}
    bench.finish("dedupe", checkpoint_dir=f"{tmp_path}/c", **options)
    bench.send([("a", {"again": True}, 4_002.0, 0), ("c", {"again": True}, 4_002.0, 0)], topic=topic)
    bench.finish("dedupe", checkpoint_dir=f"{tmp_path}/c", **options)
    rows = bench.spark.read.parquet(f"{tmp_path}/out").orderBy("key", "timestamp").collect()
    assert [(row.key, row.partition, row.offset) for row in rows] == [
        ("a", 0, 0),
        ("a", 0, 32),
        ("b", 1, 0),
        ("c", 0, 30),
    ]
    once = bench.batch("dedupe", topic=topic, within="10m")
    assert sorted((row[0], row[3], row[4]) for row in once) == [(row.key, row.partition, row.offset) for row in rows]


def test_join_pairs_records_of_two_topics_that_are_close(bench):
    orders = bench.send([("o1", {"total": 5}, 0.0, 0), ("o2", {"total": 6}, 1.0, 1), ("o3", {}, 2.0, 0), END])
    payments = bench.send([("o1", {"paid": 5}, 9.0, 1), ("o2", {"paid": 6}, 700.0, 0), END])
    pairs = without_end(bench.stream("join", topic=orders, with_=payments, within="5m"))
    assert pairs == without_end(bench.batch("join", topic=orders, with_=payments, within="5m"))
    assert [(row[0], json.loads(row[2]), json.loads(row[6])) for row in pairs] == [("o1", {"total": 5}, {"paid": 5})]
    left = without_end(bench.stream("join", topic=orders, with_=payments, within="5m", kind="left"))
    assert sorted((row[0], row[6] is None) for row in left) == [("o1", False), ("o2", True), ("o3", True)]


def test_sql_over_two_topics_with_and_without_columns(bench):
    orders = bench.send(readings(30))
    names = bench.send([(key, {"name": key.upper()}, 0.0, 0) for key in KEYS])
    query = "SELECT name, count(*) AS orders, sum(n) AS total FROM o JOIN p ON o._key = p._key GROUP BY name"
    options = {"topic": f"o={orders},p={names}", "query": query, "schema": ("o=n DOUBLE", "p=name STRING")}
    totals = {key.upper(): sum(float(i % 7) for i in range(30) if i % 10 and KEYS[i % 3] == key) for key in KEYS}
    assert bench.batch("sql", **options) == [(name, 10, total) for name, total in totals.items()]
    text = f"SELECT key, value FROM {orders.replace('-', '_')} WHERE key = 'a'"
    assert bench.stream("sql", topic=orders, query=text) == bench.batch("sql", topic=orders, query=text)
    count = f"SELECT count(*) FROM {orders.replace('-', '_')}"
    assert bench.stream("sql", topic=orders, query=count) == [(30,)]


def test_sql_says_which_record_has_drifted_from_its_columns(bench):
    topic = bench.send([("a", {"n": 1}, 0.0, 0), ("a", {"n": {"new": "shape"}}, 1.0, 0)])
    options = {"topic": f"t={topic}", "query": "SELECT n FROM t", "schema": ("t=n DOUBLE",)}
    assert bench.batch("sql", **options) == [(1.0,), (None,)]
    assert bench.batch("sql", mode="dropmalformed", **options) == [(1.0,)]
    with pytest.raises(Exception, match="SourceError") as caught:
        bench.batch("sql", mode="failfast", **options)
    assert f"{topic}/0/1" in translate(caught.value).message


def test_anomaly_finds_the_value_that_is_not_like_the_others(bench):
    usual = [("a", {"n": 10.0 + i % 3}, float(i), 0) for i in range(60)]
    steady = [("b", {"n": 5.0}, float(i), 1) for i in range(40)]
    odd = [("a", {"n": 50.0}, 60.0, 0), ("a", {"n": "none"}, 61.0, 0), ("b", {"n": 5.1}, 61.0, 1)]
    topic = bench.send([*usual, *steady, *odd])
    rows = bench.stream("anomaly", topic=topic, field="n")
    assert rows == bench.batch("anomaly", topic=topic, field="n")
    assert [(row[0], row[3], row[5], row[8] is None) for row in rows] == [("a", 60, 50.0, False), ("b", 40, 5.1, True)]
    assert rows[0][8] > 20.0


def test_results_go_to_a_topic_and_the_last_of_a_window_is_right(bench, tmp_path):
    topic, results = bench.send(readings()), bench.send([])
    options = {"topic": topic, "sink": f"topic:{results}", "available_now": True, "max_offsets_per_trigger": 50}
    bench.finish("counts", checkpoint_dir=str(tmp_path / "c"), **options)
    bench.finish("counts", checkpoint_dir=str(tmp_path / "c"), **options)  # nothing new: nothing written
    last = {bytes(row.key): json.loads(row.value) for row in bench.read(results)}
    assert len(last) == 6
    assert {each["count"] for each in last.values()} == {20}
    assert all(key.decode().split("|")[0] == each["key"] for key, each in last.items())
    found = bench.read(results, includeHeaders="true")
    assert len(found) <= 6 * 3
    assert {row.headers[1]["value"] for row in found} <= {b"0", b"1", b"2"}
    assert len({row.headers[0]["value"] for row in found}) == 1
    for done in ("commits/2", "commits/3", "offsets/3"):
        (tmp_path / "c" / done).unlink()  # as if the driver was killed in batch 2, the last one with records
    bench.finish("counts", checkpoint_dir=str(tmp_path / "c"), **options)
    assert len(bench.read(results, isolation="read_committed")) == len(found)


def test_key_of_a_query_is_written_as_its_text(bench, tmp_path):
    topic, results = bench.send([("a", {}, 0.0, 1)]), bench.send([])
    query = f"SELECT partition AS key, value FROM {topic.replace('-', '_')}"
    options = {"topic": topic, "query": query, "sink": f"topic:{results}", "checkpoint_dir": str(tmp_path)}
    bench.finish("sql", available_now=True, **options)
    assert [bytes(row.key) for row in bench.read(results)] == [b"1"]


def test_results_go_to_parquet_and_to_the_console(bench, tmp_path, capsys):
    topic = bench.send([*readings(), END])
    options = {"topic": topic, "sink": f"parquet:{tmp_path}/out", "checkpoint_dir": f"{tmp_path}/c"}
    bench.finish("top-k", available_now=True, **options)
    bench.finish("top-k", available_now=True, **options)
    stored = bench.spark.read.parquet(f"{tmp_path}/out").orderBy("start", "rank").collect()
    assert [(row["rank"], row["key"], row["count"]) for row in stored] == [(1, "a", 20), (2, "b", 20), (3, "c", 20)] * 2
    with pytest.raises(UsageError, match="not empty"):
        bench.finish("top-k", topic=topic, to="latest", sink=f"parquet:{tmp_path}/out")
    bench.finish("top-k", topic=topic, available_now=True)
    assert "|start" in (text := capsys.readouterr().out)
    assert text.count("|a  |20") == 2


def test_a_checkpoint_belongs_to_one_job_with_its_options(bench, tmp_path):
    topic = bench.send(readings(10))
    options = {"topic": topic, "available_now": True, "checkpoint_dir": str(tmp_path / "c")}
    bench.finish("counts", **options)
    with pytest.raises(UsageError, match="checkpoint of another query") as caught:
        bench.finish("counts", window="2m", **options)
    assert caught.value.why == "window was 1m and is 2m"
    with pytest.raises(UsageError, match="checkpoint of another query") as caught:
        bench.finish("dedupe", **options)
    assert "job was counts and is dedupe" in caught.value.why
    bench.finish("counts", trigger="5s", **options)  # pace is nobody's identity


def test_parquet_folder_belongs_to_one_checkpoint(bench, tmp_path):
    """Spark's file sink skips the batches of another checkpoint whose numbers it has: they would be lost."""
    options = {"topic": bench.send([*readings(), END]), "sink": f"parquet:{tmp_path}/out", "available_now": True}
    bench.finish("top-k", checkpoint_dir=f"{tmp_path}/a", **options)
    with pytest.raises(UsageError, match="written with another checkpoint"):
        bench.finish("top-k", checkpoint_dir=f"{tmp_path}/b", k=1, **options)
    (tmp_path / "out" / "_checkpoint.json").unlink()  # a version that did not name the owner
    with pytest.raises(UsageError, match="written with another checkpoint"):
        bench.finish("top-k", checkpoint_dir=f"{tmp_path}/b", k=1, **options)
    bench.finish("top-k", checkpoint_dir=f"{tmp_path}/a", **options)
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(UsageError, match="written with another checkpoint"):
        bench.finish("top-k", checkpoint_dir=f"{tmp_path}/a", **options)


def test_a_topic_that_is_not_there_is_one_message(bench):
    with pytest.raises(Exception, match="no-such-topic") as caught:
        bench.batch("counts", topic="no-such-topic")
    text = translate(caught.value)
    assert text.exit_code == 2
    assert "no-such-topic" in text.message
    assert "\n" not in text.message + text.why


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("counts", {"from_": "{not json"}, "spark-options"),
        ("counts", {"from_": '{"t":{"0":"x"}}'}, "spark-options"),
        ("counts", {"from_": "yesterday-ish"}, "bad-time"),
        ("counts", {"sink": "paper:x"}, "spark-sink"),
        ("counts", {"sink": "topic:x"}, "spark-no-checkpoint"),
        ("counts", {"to": "latest", "available_now": True}, "spark-options"),
        ("counts", {"slide": "2m"}, "spark-options"),
        ("counts", {"window": "0s"}, "spark-options"),
        ("counts", {"watermark": "soon"}, "bad-duration"),
        ("counts", {"mode": "strict"}, "spark-options"),
        ("counts", {"option": ("novalue",)}, "spark-options"),
        ("top-k", {"session_gap": "1m"}, "spark-options"),
        ("stats", {"field": "n", "percentiles": "50,high"}, "spark-options"),
        ("anomaly", {"field": "n", "alpha": 1.5}, "spark-options"),
        ("join", {"with_": "a,b"}, "spark-options"),
        ("dedupe", {"within": "1s", "watermark": "1h"}, "spark-options"),
        ("sql", {"query": "x", "schema": ("other=a INT",)}, "spark-options"),
        ("sql", {"query": "x", "topic": "Orders,orders"}, "spark-options"),
        ("archive", {"into": "x", "to": "latest"}, "spark-options"),
    ],
)
def test_invalid_job_options_are_reported_before_spark_is_started(name, options, code):
    with pytest.raises(YakError) as caught:
        load(name).options(**{"topic": "t", **options}).check()
    assert caught.value.code == code
    assert caught.value.exit_code == 2


def test_overflowing_number_neither_stops_the_query_nor_changes_later_values(bench):
    steady = [("k", {"n": 1.0 + number % 2}, number, 0) for number in range(10)]
    odd = [("k", {"n": value}, 10 + at, 0) for at, value in enumerate(("NaN", "Infinity", "-Infinity", 1e300, -1e300))]
    topic = bench.send([*steady, *odd, *[(key, value, at + 20, part) for key, value, at, part in steady]])
    for run in (bench.batch, bench.stream):
        (row,) = run("stats", topic=topic, field="n", window="2m")
        assert row[3:8] == (20, 5, 1.5, 1.0, 2.0)
        odd_ones = run("anomaly", topic=topic, field="n", warm_up=5)
        assert [found[3] for found in sorted(odd_ones, key=lambda found: found[3])] == [11, 12, 13, 14]


def test_from_a_time_reads_nothing_of_a_partition_that_ended_before_it(bench):
    topic = bench.send([("a", {}, 0.0, 0), ("b", {}, 600.0, 1)])
    since = str(bench.start_ms + 300_000)
    for run in (bench.batch, bench.stream):
        assert [row[2:] for row in run("counts", topic=topic, from_=since)] == [("b", 1)]


def test_join_and_sql_take_offsets_of_both_topics(bench):
    left = bench.send([("a", {"n": 1}, 0.0, 0), ("b", {"n": 2}, 0.0, 1)])
    right = bench.send([("a", {"n": 3}, 1.0, 0), ("b", {"n": 4}, 1.0, 1)])
    from_ = json.dumps({left: {"0": 1, "1": 0}, right: {"0": 0, "1": -2}})
    assert [row[0] for row in bench.batch("join", topic=left, with_=right, from_=from_)] == ["b"]
    query = "SELECT key FROM l JOIN r USING (key)"
    assert bench.batch("sql", topic=f"l={left},r={right}", query=query, from_=from_) == [("b",)]
    with pytest.raises(Exception, match="it does not name") as caught:
        bench.batch("join", topic=left, with_=right, from_=json.dumps({left: {"0": 1, "1": 0}}))
    assert translate(caught.value).code == "spark-option"


def test_join_pairs_no_records_without_a_key(bench):
    left = bench.send([(None, {"n": 1}, 0.0, 0), ("", {"n": 2}, 0.0, 0), END])
    right = bench.send([(None, {"n": 3}, 1.0, 0), ("", {"n": 4}, 1.0, 0), END])
    for run in (bench.batch, bench.stream):
        rows = without_end(run("join", topic=left, with_=right, within="5m", kind="left"))
        found = {(row[0], row[2], row[6]) for row in rows}
        assert found == {(None, '{"n": 1}', None), ("", '{"n": 2}', '{"n": 4}')}


def test_time_field_that_is_no_time_is_left_out_or_an_error(bench):
    values = [
        bench.start_ms,
        1_000 * bench.start_ms,
        1_000_000 * bench.start_ms,
        -86_400_000,
        "2026-03-29T02:30:00+02:00",
    ]
    topic = bench.send([("k", {"at": value}, float(at), 0) for at, value in enumerate(values)])
    for mode in ("permissive", "dropmalformed"):
        rows = bench.batch("counts", topic=topic, time_field="at", mode=mode)
        assert sorted(row[0].astimezone(dt.UTC).isoformat() for row in rows) == [
            "1969-12-31T00:00:00+00:00",
            "2026-03-29T00:30:00+00:00",
            dt.datetime.fromtimestamp(bench.start_ms / 1000, dt.UTC).isoformat(),
        ]
    with pytest.raises(Exception, match="SourceError") as caught:
        bench.batch("counts", topic=topic, time_field="at", mode="failfast")
    assert f"{topic}/0/1" in translate(caught.value).message


def test_checkpoint_of_a_query_without_a_batch_can_be_taken_by_another(bench, tmp_path):
    options = {"available_now": True, "checkpoint_dir": str(tmp_path / "c")}
    with pytest.raises(Exception, match="no-such-topic"):
        bench.finish("counts", topic="no-such-topic", **options)
    topic = bench.send(readings(10))
    bench.finish("counts", topic=topic, **options)
    with pytest.raises(UsageError, match="checkpoint of another query"):
        bench.finish("counts", topic="no-such-topic", **options)


def test_dedupe_takes_times_of_all_years(bench):
    times = ("0001-01-01T00:00:00Z", "0001-01-01T00:05:00Z", "2026-11-20T12:00:00Z", "9999-12-31T23:59:59Z")
    topic = bench.send([("k", {"at": at}, float(number), 0) for number, at in enumerate(times)])
    assert [row[4] for row in bench.batch("dedupe", topic=topic, time_field="at", within="10m")] == [0, 2, 3]


def test_dedupe_by_a_field_keeps_key_and_value_of_the_record(bench):
    records = [("k1", {"id": "x"}, 0.0, 0), ("k2", {"id": "x"}, 1.0, 0), (None, {"id": "y"}, 2.0, 0)]
    topic = bench.send([*records, ("k3", b"\xff\xfe", 3.0, 0)])
    for run in (bench.batch, bench.stream):
        assert [row[0] for row in run("dedupe", topic=topic, key_field="id")] == ["k1", "k3", None]
    target = bench.send([])
    bench.finish("dedupe", topic=topic, to="latest", sink=f"topic:{target}")
    assert {row.key and bytes(row.key): bytes(row.value) for row in bench.read(target)} == {
        b"k1": b'{"id": "x"}',
        b"k2": b'{"id": "x"}',
        b"k3": b"\xff\xfe",
        None: b'{"id": "y"}',
    }


def test_console_prints_a_part_of_a_batch_and_the_state_has_all_of_it(bench, capsys):
    keys = [f"k{number}" for number in range(200)]
    topic = bench.send([(key, {}, float(turn), 0) for turn in range(3) for key in keys])
    bench.finish("counts", topic=topic, available_now=True, max_offsets_per_trigger=200)
    printed = capsys.readouterr().out
    assert printed.count("only showing top 40 rows") == 3
    assert re.findall(r"\|k\d+ *\|(\d+)", printed.split("batch 2\n")[1]) == ["3"] * 40


def test_console_prints_the_hour_that_a_clock_repeats_twice(bench, capsys, monkeypatch):
    starts = ("2026-10-25T00:00:00+00:00", "2026-10-25T01:00:00+00:00")
    topic = bench.send([(None, {"at": start}, 0.0, 0) for start in starts])
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        bench.finish("counts", topic=topic, time_field="at", window="1h", available_now=True)
    finally:
        monkeypatch.undo()
        time.tzset()
    printed = re.findall(r"^\|(\S+ \S+) *\|", capsys.readouterr().out, re.MULTILINE)
    assert sorted(printed) == ["2026-10-25 00:00:00", "2026-10-25 01:00:00"]
