"""CSV files: chosen, inspected, sent."""

import csv
import json
import os

import pytest
from confluent_kafka import KafkaError

from tests.errors import raises_error
from yak.client.checkpoint import Checkpoint
from yak.client.errors import from_kafka, reason
from yak.client.inputs import CsvMapping
from yak.client.metadata import Partition, Topic
from yak.client.produce import AckedPrefix, Failed
from yak.errors import UsageError, YakError
from yak.tui.formatter import Formatter
from yak.tui.produce.files import (
    FileFeed,
    checkpoint_path,
    complete_path,
    list_directory,
    preview_csv,
    rows_settled,
    start_directories,
)
from yak.tui.widgets.file_picker import file_rows


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "z").mkdir()
    for name in ("b.csv", "A.CSV", "o.csv.rejected.csv", "x.bin", ".hidden.csv"):
        (tmp_path / name).write_text("12345")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    return tmp_path


def test_directories_come_first_then_csv_files_then_others(directory):
    entries = list_directory(str(directory))
    assert [each.name for each in entries] == ["..", "z", "A.CSV", "b.csv", "gone", "o.csv.rejected.csv", "x.bin"]
    assert entries[0].path == str(directory.parent)
    assert [each.name for each in entries if each.is_likely] == ["A.CSV", "b.csv"]


def test_a_directory_that_cannot_be_listed_says_so(directory):
    with raises_error(YakError, "file"):
        list_directory(str(directory / "nothing"))
    assert list_directory("/")[0].name != ".."


def test_a_path_is_completed(directory):
    assert complete_path(f"{directory}/b") == f"{directory}/b.csv"
    assert complete_path(f"{directory}/z") == f"{directory}/z{os.sep}"
    assert complete_path(f"{directory}/q") is None
    assert complete_path(f"{directory}/") is None
    assert complete_path(f"{directory}/nothing/x") is None
    assert complete_path("") is None


def test_uploads_of_the_browser_come_first(directory):
    assert start_directories({"YAK_UI_UPLOADS": str(directory)})[0] == ("uploads", str(directory))
    assert start_directories({"YAK_UI_UPLOADS": str(directory / "nothing")})[0][0] == "here"
    assert start_directories({})[0][0] == "here"


def test_files_as_rows(directory):
    fmt = Formatter(is_ascii=True)
    now_ms = int((directory / "b.csv").stat().st_mtime * 1000) + 60_000
    rows = {row.cells[0].text: row for row in file_rows(list_directory(str(directory)), fmt, now_ms)}
    assert "../ up" in rows
    assert "z/" in rows
    assert rows["b.csv"].cells[1].text == "5 B"
    assert rows["b.csv"].cells[2].text == "1 min ago"
    assert (rows["b.csv"].cells[0].tone, rows["x.bin"].cells[0].tone) == ("strong", "dim")


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "o.csv"
        path.write_bytes(text.encode(encoding))
        return str(path)

    return write


def test_csv_preview_detects_columns_delimiter_and_encoding(file):
    preview = preview_csv(file("id;größe;id\n1;2;3\n", "cp1252"))
    assert (preview.encoding, preview.delimiter, preview.columns) == ("cp1252", ";", ("id", "größe", "id"))
    assert preview.doubled == ("id",)
    assert preview.size_bytes == 18
    assert preview.rows == ()


def test_csv_preview_rows_have_records_and_problems(file):
    text = "id,total,src,part\nu1,12,web,0\n,13,web,\n,14,app,1\nu4,15\nu5,16,web,9\nu6,17,web,x\n"
    mapping = CsvMapping(key="id", headers={"src": "source"}, partition="part")
    preview = preview_csv(file(text), mapping, partitions=3)
    first = preview.rows[0]
    assert (first.line, first.key, first.value, first.partition) == (2, "u1", '{"total":"12"}', 0)
    assert first.headers == (("source", "web"),)
    assert [(row.status, row.why) for row in preview.rows[:5]] == [
        ("good", ""),
        ("warn", "no key: any partition"),
        ("warn", "no key"),
        ("bad", "2 columns, not 4"),
        ("bad", "no partition 9: there are 3, from 0 on"),
    ]
    assert (preview.checked, preview.bad) == (6, 3)
    assert preview.mistakes[2] == (7, 'partition "x" is not a number')


def test_chosen_columns_and_a_tombstone(file):
    path = file("id,a,b,c\nu1,1,2,3\nu2,,,\n")
    preview = preview_csv(path, CsvMapping(key="id", value="json:c,a"))
    assert preview.rows[0].value == '{"c":"3","a":"1"}'
    preview = preview_csv(path, CsvMapping(key="id", value="a", null_value=""))
    assert (preview.rows[1].value, preview.rows[1].status) == (None, "warn")
    assert "tombstone" in preview.rows[1].why


def test_csv_preview_of_an_unreadable_file_raises_the_reason(file, tmp_path):
    path = file("id,a\n")
    with pytest.raises(UsageError, match='column "z"'):
        preview_csv(path, CsvMapping(value="json:z"))
    with raises_error(UsageError, "csv-empty"):
        preview_csv(file(""))
    with raises_error(YakError, "file"):
        preview_csv(str(tmp_path / "none.csv"))
    with raises_error(YakError, "bad-encoding"):
        preview_csv(path, encoding="klingon")


pytest.importorskip("confluent_kafka")


TOPIC = Topic("orders", tuple(Partition(number, 1, (1,), (1,)) for number in range(3)))


class Sender:
    """As much of a sender as a feed sees."""

    def __init__(self):
        self.prefix = AckedPrefix()

    def settle_rejected(self, number):
        self.prefix.add(number)


def failed(number, code):
    error = KafkaError(code)
    return Failed(number, from_kafka(error, "x"), reason(error))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "o.csv"
    file.write_text("id,part\n" + "".join(f"u{n},\n" for n in range(6)) + "bad\nu7,9\nu8,1\n")
    return str(file)


class Cluster:
    """As much of a cluster as a feed sees."""

    def __init__(self, topic_id):
        self.topic_id = topic_id

    def topic_ids(self, names):
        return dict.fromkeys(names, self.topic_id)


def opened(path, topic_id="first", **options):
    feed = FileFeed(path, "orders", CsvMapping(key="id", value="id", partition="part"), "utf-8", **options)
    feed.open(TOPIC, Cluster(topic_id))
    return feed, Sender()


def settle(feed, sender, number):
    sender.prefix.add(number)
    feed.acknowledged(number)


def rejected(path):
    with open(f"{path}.rejected.csv", newline="") as file:
        return [(row["line"], row["reason"]) for row in csv.DictReader(file)]


def test_a_file_sent_to_its_end_leaves_its_bad_rows_and_no_checkpoint(path):
    feed, sender = opened(path)
    sent = list(feed.messages(sender))
    assert [number for number, _ in sent] == [0, 1, 2, 3, 4, 5, 8]
    assert sent[-1][1].partition == 1
    for number, _ in sent:
        settle(feed, sender, number)
    feed.close(sender, is_complete=True)
    assert rejected(path) == [("8", "1 column, not 2"), ("9", "no partition 9: there are 3, from 0 on")]
    assert (feed.progress.settled, feed.progress.rejected) == (9, 2)
    assert not os.path.exists(checkpoint_path(path, "orders"))
    assert rows_settled(path, "orders") == 0


def test_file_that_was_stopped_resumes_with_the_first_row_that_is_not_settled(path):
    feed, sender = opened(path)
    rows = feed.messages(sender)
    for number in [next(rows)[0] for _ in range(4)]:
        if number != 2:
            settle(feed, sender, number)
    feed.close(sender, is_complete=False)
    assert rows_settled(path, "orders") == 2
    assert rows_settled(path, "other") == 0
    feed, sender = opened(path, skip=2)
    sent = list(feed.messages(sender))
    assert [(number, record.key) for number, record in sent][:2] == [(0, b"u2"), (1, b"u3")]
    for number, _ in sent:
        settle(feed, sender, number)
    feed.moment(sender)
    assert feed.progress.settled == 9


def test_upload_to_a_topic_that_was_created_again_does_not_skip_the_rows_of_the_one_before(path):
    feed, sender = opened(path)
    settle(feed, sender, next(feed.messages(sender))[0])
    feed.close(sender, is_complete=False)
    with raises_error(UsageError, "resume-mismatch"):
        opened(path, "second", skip=rows_settled(path, "orders"))
    feed, sender = opened(path, "second")
    assert next(feed.messages(sender))[0] == 0


def test_completed_upload_whose_checkpoint_is_removed_meanwhile_ends_in_order(path):
    feed, sender = opened(path)
    os.remove(checkpoint_path(path, "orders"))
    feed.close(sender, is_complete=True)


def test_row_that_the_cluster_refuses_is_set_aside_and_the_rest_continues(path):
    feed, sender = opened(path)
    rows = feed.messages(sender)
    for _ in range(3):
        next(rows)
    settle(feed, sender, 0)
    assert feed.failed(failed(1, KafkaError.MSG_SIZE_TOO_LARGE)) == ""
    assert feed.failed(failed(2, KafkaError.INVALID_RECORD)) == ""
    assert sender.prefix.length == 3
    feed.close(sender, is_complete=False)
    assert [line for line, _ in rejected(path)] == ["3", "4"]
    assert "MSG_SIZE_TOO_LARGE" in rejected(path)[0][1]


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError.NOT_ENOUGH_REPLICAS])
def test_a_failure_that_is_not_the_rows_fault_ends_the_run_before_it(path, code):
    feed, sender = opened(path)
    rows = feed.messages(sender)
    for _ in range(2):
        next(rows)
    assert feed.failed(failed(0, code)) != ""
    settle(feed, sender, 1)
    feed.close(sender, is_complete=False)
    assert rows_settled(path, "orders") == 0
    assert not os.path.exists(f"{path}.rejected.csv")


def test_another_file_of_that_name_is_sent_from_its_beginning(path):
    Checkpoint(checkpoint_path(path, "orders"), path, "orders").write(5)
    assert rows_settled(path, "orders") == 5
    with open(path, "w") as file:
        file.write("other,part\nx,\n")
    assert rows_settled(path, "orders") == 0


def test_a_checkpoint_that_cannot_be_read_or_written_says_so(path):
    with open(checkpoint_path(path, "orders"), "w") as file:
        json.dump([], file)
    with raises_error(YakError, "resume-unreadable"):
        rows_settled(path, "orders")
    os.remove(checkpoint_path(path, "orders"))
    os.mkdir(checkpoint_path(path, "orders"))
    with raises_error(YakError, "file"):
        opened(path)
    with raises_error(YakError, "file"):
        rows_settled(path + "x", "orders")
