"""Archives: every record once whatever is done twice, and all of it back into a topic in order."""

import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from yak.errors import UsageError, YakError
from yak.spark.jobs.replay import HEADER, chunks_of, send

pytestmark = pytest.mark.timeout(600)


def records(count: int) -> list[tuple[str, object, float, int]]:
    """Keys that each have a partition; one a minute, so that hours change."""
    return [(f"k{i % 5}", {"i": i}, 60.0 * (i % 100), i % 5 % 2) for i in range(count)]


def stored(bench: Any, folder: Path) -> list[tuple[int, int, bytes]]:
    """What any reader of Parquet finds in the folder, by partition and offset."""
    frame = bench.spark.read.parquet(str(folder)).select("partition", "offset", "value")
    return sorted((row[0], row[1], bytes(row[2])) for row in frame.collect())


def sent(bench: Any, topic: str) -> list[tuple[int, int, bytes]]:
    """What the topic has."""
    return [(row.partition, row.offset, bytes(row.value)) for row in bench.read(topic)]


def test_archive_stores_every_record_once_by_topic_date_and_hour_with_one_checkpoint(bench, tmp_path):
    folder = tmp_path / "archive"
    topic = bench.send(records(300))
    options = {"topic": topic, "into": str(folder), "available_now": True, "max_offsets_per_trigger": 60}
    bench.finish("archive", **options)
    assert stored(bench, folder) == sent(bench, topic)
    assert len(list(folder.glob(f"topic={topic}/date=*/hour=*"))) >= 2
    assert len(list(folder.glob("_spark_metadata/[0-9]*"))) == 5

    bench.send(records(50), topic=topic)
    bench.finish("archive", **options)
    assert stored(bench, folder) == sent(bench, topic)

    with pytest.raises(UsageError, match="written with another checkpoint"):
        bench.finish("archive", checkpoint_dir=str(tmp_path / "other"), **options)
    assert stored(bench, folder) == sent(bench, topic)


@pytest.mark.parametrize("is_committed", [True, False])
def test_archive_batch_that_is_repeated_is_stored_once(bench, tmp_path, is_committed):
    folder = tmp_path / "archive"
    topic = bench.send(records(120))
    options = {"topic": topic, "into": str(folder), "available_now": True, "max_offsets_per_trigger": 60}
    bench.finish("archive", **options)
    # As after a kill: the files are there, and the checkpoint, or the sink's list too, does not know of the last batch.
    doubtful = [folder / "_checkpoint" / "commits"] + ([] if is_committed else [folder / "_spark_metadata"])
    for log in doubtful:
        (log / "1").unlink()
    bench.finish("archive", **options)
    assert stored(bench, folder) == sent(bench, topic)
    assert (folder / "_checkpoint" / "commits" / "1").exists()


def test_archive_has_the_hours_of_utc_whatever_the_zone_of_the_session(bench, tmp_path):
    hours = ["2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    starts_s = [datetime.fromisoformat(hour).timestamp() - bench.start_ms / 1000 for hour in hours]
    topic = bench.send([(hour, {}, at_s, 0) for hour, at_s in zip(hours, starts_s, strict=True)])
    bench.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")  # no 02:30 on the first day, two on the other
    try:
        bench.finish("archive", topic=topic, into=str(tmp_path / "archive"), available_now=True)
    finally:
        bench.spark.conf.set("spark.sql.session.timeZone", "UTC")
    folders = sorted((tmp_path / "archive").glob(f"topic={topic}/date=*/hour=*"))
    assert [f"{path.parent.name[5:]}T{path.name[5:]}:30:00Z" for path in folders] == hours


def test_tables_that_this_spark_does_not_know_are_one_message(bench, tmp_path):
    topic = bench.send(records(1))
    for name in ("delta", "iceberg"):
        with pytest.raises(UsageError, match=f"this Spark has no {name}"):
            bench.finish(
                "archive", topic=topic, into=str(tmp_path / "t"), format=name, checkpoint_dir=f"{tmp_path}/{name}"
            )


def test_replay_restores_every_record_once_in_order_and_resumes_after_a_crash(bench, tmp_path, monkeypatch):
    folder, checkpoint = tmp_path / "archive", tmp_path / "replay"
    topic, target = bench.send(records(200)), bench.send([], parts=3)
    bench.finish("archive", topic=topic, into=str(folder), available_now=True)
    options = {"archive": str(folder), "topic": topic, "into": target, "checkpoint_dir": str(checkpoint)}

    def die(_self: object, number: int) -> None:
        if number == 1:
            raise RuntimeError("the power went")
        real(_self, number)

    from yak.spark.jobs.replay import ReplayState

    real = ReplayState.finish
    with monkeypatch.context() as patched:
        # All of the second chunk is in the target, and the checkpoint does not know of it.
        patched.setattr(ReplayState, "finish", die)
        with pytest.raises(RuntimeError, match="the power went"):
            bench.finish("replay", chunk_rows=80, **options)
    assert 80 <= len(bench.read(target)) < 200
    bench.send(records(10), topic=topic)  # the archive grows; the replay goes on with what it began with
    bench.finish("archive", topic=topic, into=str(folder), available_now=True)
    bench.finish("replay", chunk_rows=80, **options)
    found = bench.read(target, includeHeaders="true")
    assert len(found) == 200
    by_key = defaultdict(list)
    for row in found:
        by_key[bytes(row.key)].append(json.loads(row.value)["i"])
    assert {key: list(range(number, 200, 5)) for number, key in enumerate(sorted(by_key))} == dict(by_key)
    first = bench.read(topic)[0]
    (copy,) = [row for row in found if bytes(row.headers[-1]["value"]).decode() == f"{topic}/0/0"]
    assert (copy.value, copy.timestamp) == (first.value, first.timestamp)

    bench.finish("replay", chunk_rows=80, **options)  # done: nothing is written
    assert len(bench.read(target)) == 200
    with pytest.raises(UsageError, match="checkpoint of another query"):
        bench.finish("replay", chunk_rows=90, **options)
    with pytest.raises(UsageError, match="has no records of other"):
        bench.finish("replay", **{**options, "topic": "other"})


def test_replay_from_a_relative_time_keeps_the_time_of_its_beginning(bench, tmp_path, monkeypatch):
    from yak.spark.jobs import replay

    topic, target = bench.send(records(40)), bench.send([], parts=1)
    bench.finish("archive", topic=topic, into=str(tmp_path / "archive"), available_now=True)
    real, now_ms = replay.ReplayState.finish, [0]

    def finish(self: Any, number: int) -> None:
        now_ms[0] = 4_000_000_000_000  # the clock goes on between two chunks
        real(self, number)

    monkeypatch.setattr(replay.ReplayState, "finish", finish)
    monkeypatch.setattr(replay, "_time_ms", lambda _text: now_ms[0])
    options = {"archive": str(tmp_path / "archive"), "topic": topic, "into": target, "from_": "-1h", "chunk_rows": 20}
    bench.finish("replay", checkpoint_dir=str(tmp_path / "replay"), **options)
    assert len(bench.read(target)) == 40


class FilesInMemory:
    """The checkpoint's folder."""

    folder = "checkpoint"

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.read = self.texts.__getitem__

    def names(self, _folder: str) -> list[str]:
        return sorted(self.texts)

    def at(self, name: str) -> str:
        return name

    def write_new(self, path: str, text: str) -> bool:
        return self.texts.setdefault(path, text) is text

    def delete(self, path: str) -> None:
        self.texts.pop(path, None)


def test_two_replays_with_one_checkpoint_do_not_write_side_by_side():
    from yak.spark.jobs.replay import ReplayState

    files: Any = FilesInMemory()

    def load(from_ms: int) -> ReplayState:
        return ReplayState.load(files, {"into": "t"}, {0: (0, 9)}, (from_ms, None))

    one, other = load(1_000), load(2_000)
    one.begin(0, {"0": 5})
    with pytest.raises(UsageError, match="used by another replay at the same time"):
        other.begin(0, {"0": 5})
    resumed = load(3_000)
    assert (resumed.begun, resumed.ends, resumed.times) == (0, {"0": 5}, (1_000, None))
    resumed.begin(0, resumed.ends)
    with pytest.raises(UsageError, match="used by another replay at the same time"):
        one.finish(0)
    resumed.finish(0)
    assert load(0).done == 1


def test_chunks_follow_each_other_and_cover_everything():
    ranges = {1: (0, 19), 0: (5, 44)}
    covered: dict[int, list[int]] = {0: [], 1: []}
    for chunk in chunks_of(ranges, 14):
        assert all(last - first < 7 for first, last in chunk.values())
        for partition, (first, last) in chunk.items():
            covered[partition] += range(first, last + 1)
    assert covered == {0: list(range(5, 45)), 1: list(range(20))}


def test_replay_connects_to_its_target_with_the_client_settings_of_its_options(monkeypatch):
    from yak.spark.jobs.replay import JOB, _ends

    def admin(servers: str, *, timeout_ms: int, extra: dict[str, str]) -> None:
        raise UsageError("asked", f"{servers} by {extra['security.protocol']}")

    monkeypatch.setattr("yak.spark.source.topics.Admin", admin)
    needed = {"archive": "a", "topic": "orders", "into": "again", "checkpoint_dir": "c", "bootstrap": "one:1"}
    with pytest.raises(YakError, match="one:1 by SASL_SSL"):
        _ends(JOB.options(**needed, option=("kafka.security.protocol=SASL_SSL",)))


def test_replay_task_that_runs_again_sends_what_has_not_arrived(bench):
    import pyarrow as pa

    target = bench.send([], parts=2)
    origins = [f"orders/0/{number}" for number in range(40)]
    headers = [[{"key": HEADER, "value": origin.encode()}] for origin in origins]
    times = pa.array([bench.start_ms] * 40, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    table = {"key": origins, "value": origins, "timestamp": times, "headers": headers, "place": origins}
    rows = pa.RecordBatch.from_pydict(table)
    cluster, ends = {"bootstrap": bench.bootstrap}, {"0": 0, "1": 0}
    send(iter([rows.slice(0, 25)]), cluster, target, None)  # then its executor is lost
    send(iter([rows.slice(0, 30), rows.slice(30)]), cluster, target, ends)
    assert sorted(bytes(row.value).decode() for row in bench.read(target)) == sorted(origins)


def test_replay_has_no_two_attempts_of_a_task_at_the_same_time():
    """The second one does not see what the first one has yet to send, and both would send it."""
    from yak.spark.driver.make import configuration
    from yak.spark.jobs.frame import session_settings
    from yak.spark.jobs.replay import JOB

    options = JOB.options(archive="a", topic="orders", into="again", checkpoint_dir="c")
    assert configuration(session_settings(JOB, options))["spark.speculation"] == "false"
