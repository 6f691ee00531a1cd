"""Archives: every record once whatever is done twice, files made one, and all of it back into a topic in order."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from yak.errors import UsageError, YakError
from yak.spark.jobs.archive import small_groups
from yak.spark.jobs.books import Books, Entry
from yak.spark.jobs.files import Files
from yak.spark.jobs.replay import chunks_of

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


def test_every_record_is_archived_once_by_topic_date_and_hour_and_small_files_are_made_one(
    bench: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    topic = bench.send(records(300))
    options = {"topic": topic, "into": str(folder), "available_now": True, "max_offsets_per_trigger": 60}
    bench.finish("archive", compact_at=3, **options)
    assert stored(bench, folder) == sent(bench, topic)
    books = Books.load(Files(bench.spark, str(folder)))
    assert books.rows == 300
    on_disk = {str(path.relative_to(folder)) for path in folder.rglob("topic=*/**/*.parquet")}
    assert on_disk == set(books.live)
    assert books.version > 5  # batches, and compactions between them
    by_hour = defaultdict(list)
    for each in books.live.values():
        by_hour[each.place].append(each)
    assert len(by_hour) >= 2
    assert all(len(group) < 3 for group in by_hour.values())

    bench.send(records(50), topic=topic)
    bench.finish("archive", compact_at=3, **options)
    assert stored(bench, folder) == sent(bench, topic)

    with pytest.raises(Exception, match="archived with another checkpoint"):
        bench.finish("archive", checkpoint_dir=str(tmp_path / "other"), **options)
    assert stored(bench, folder) == sent(bench, topic)


def test_a_batch_that_died_at_any_point_is_stored_once(bench: Any, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "archive"
    topic = bench.send(records(120))
    options = {"topic": topic, "into": str(folder), "available_now": True, "max_offsets_per_trigger": 60}
    real_write, real_move = Files.write_new, Files.move

    def die(*_: object) -> None:
        raise RuntimeError("the power went")

    def die_at_the_second(self: Files, path: str, to: str) -> None:
        if to.endswith("-00001.parquet"):
            die()
        real_move(self, path, to)

    def die_at_change(self: Files, path: str, text: str) -> bool:
        if path.endswith("0000000002.json"):
            die()
        return real_write(self, path, text)

    def die_after_change(self: Files, path: str, text: str) -> bool:
        done = real_write(self, path, text)
        if path.endswith("0000000002.json"):
            die()
        return done

    for name, broken in (("move", die_at_the_second), ("write_new", die_at_change), ("write_new", die_after_change)):
        with monkeypatch.context() as patched:
            patched.setattr(Files, name, broken)
            with pytest.raises(Exception, match="the power went"):
                bench.finish("archive", compact_at=0, **options)
    bench.finish("archive", compact_at=0, **options)
    assert stored(bench, folder) == sent(bench, topic)


def test_tables_that_this_spark_does_not_know_are_one_message(bench: Any, tmp_path: Path) -> None:
    topic = bench.send(records(1))
    for name in ("delta", "iceberg"):
        with pytest.raises(UsageError, match=f"this Spark has no {name}"):
            bench.finish(
                "archive", topic=topic, into=str(tmp_path / "t"), format=name, checkpoint_dir=f"{tmp_path}/{name}"
            )


def test_compaction_that_loses_a_record_is_refused(bench: Any, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    topic = bench.send(records(40))
    bench.finish("archive", topic=topic, into=str(folder), available_now=True, compact_at=0)
    books = Books.load(Files(bench.spark, str(folder)))
    paths = list(books.live)
    rows = books.read(bench.spark, paths).where("offset > 0")
    rows.write.partitionBy("topic", "date", "hour").parquet(books.stage())
    with pytest.raises(YakError, match="changed the number of records"):
        books.add(bench.spark, query="q", batch=None, removed=paths)
    assert Books.load(books.files).rows == 40


def test_a_replay_brings_every_record_back_once_in_order_and_goes_on_after_a_crash(
    bench: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    folder, checkpoint = tmp_path / "archive", tmp_path / "replay"
    topic, target = bench.send(records(200)), bench.send([], parts=3)
    bench.finish("archive", topic=topic, into=str(folder), available_now=True)
    options = {"archive": str(folder), "topic": topic, "into": target, "checkpoint_dir": str(checkpoint)}

    def die(_self: object, number: int) -> None:
        if number == 1:
            raise RuntimeError("the power went")
        real(_self, number)

    from yak.spark.jobs.replay_state import ReplayState

    real = ReplayState.finish
    with monkeypatch.context() as patched:
        # All of the second chunk is in the target, and the checkpoint does not know of it.
        patched.setattr(ReplayState, "finish", die)
        with pytest.raises(RuntimeError, match="the power went"):
            bench.finish("replay", chunk_rows=80, **options)
    assert 80 <= len(bench.read(target)) < 200
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


def entry(number: int, size_bytes: int = 10, hour: str = "01") -> Entry:
    ranges = {"0": (number * 10, number * 10 + 9, 10), "1": (number * 5, number * 5 + 4, 5)}
    return Entry(f"topic=t/date=d/hour={hour}/v{number:010d}-00000.parquet", "t", "d", hour, size_bytes, ranges)


def test_chunks_follow_each_other_and_cover_everything() -> None:
    entries = [entry(number) for number in range(4)]
    chunks = list(chunks_of(entries, 14))
    covered = {0: [], 1: []}
    for chunk in chunks:
        for partition, (first, last) in chunk.ranges.items():
            covered[partition] += range(first, last + 1)
    assert covered == {0: list(range(40)), 1: list(range(20))}
    assert chunks == list(chunks_of(list(reversed(entries)), 14))
    assert {path for chunk in chunks for path in chunk.paths} == {each.path for each in entries}


def test_only_small_files_of_one_hour_are_made_one() -> None:
    entries = [entry(1), entry(2), entry(3, 90), entry(4, hour="02")]
    (group,) = small_groups(entries, 2, 100)
    assert [each.path for each in group] == [entry(1).path, entry(2).path]
    assert small_groups(entries, 3, 100) == []
