"""Which of the two readers reads a task, and what happens when the first one cannot go on."""

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from yak.spark.columnar import read as columnar
from yak.spark.columnar.schema import OffsetRange, UnsupportedSetting
from yak.spark.source import range_partition
from yak.spark.source.errors import SourceError
from yak.spark.source.options import read_options

TASK = range_partition.RangePartition(OffsetRange("t", 0, 0, 10), "127.0.0.1:1")
OPTIONS = read_options({"bootstrap": "127.0.0.1:1", "subscribe": "t"})


def columnar_reader(batches: list[str]) -> object:
    """A reader that meets a broker which is too old, after these batches."""

    def read(_wanted: object, _settings: object) -> Iterator[str]:
        yield from batches
        raise UnsupportedSetting("this broker", "it does not speak version 11")

    return read


@pytest.fixture
def by_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_partition, "_by_librdkafka", lambda *_: iter(["records 0 to 9"]))


@pytest.mark.usefixtures("by_librdkafka")
def test_task_that_the_columnar_reader_cannot_begin_is_read_by_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "read", columnar_reader([]))
    assert list(range_partition.batches(TASK, OPTIONS)) == ["records 0 to 9"]


@pytest.mark.usefixtures("by_librdkafka")
def test_task_that_the_columnar_reader_has_begun_gives_no_record_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader moved to a broker that is too old: the task fails, and Spark runs it again from its start."""
    monkeypatch.setattr(columnar, "read", columnar_reader(["records 0 to 4"]))
    found = range_partition.batches(TASK, OPTIONS)
    assert next(found) == "records 0 to 4"
    with pytest.raises(SourceError, match="this broker"):
        next(found)
