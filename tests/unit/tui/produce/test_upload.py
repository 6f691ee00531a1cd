import csv
import json
import os

import pytest

pytest.importorskip("confluent_kafka")
from confluent_kafka import KafkaError

from yak.client.checkpoint import Checkpoint
from yak.client.errors import from_kafka, reason, was_written
from yak.client.inputs import CsvMapping
from yak.client.metadata import Partition, Topic
from yak.client.produce import AckedPrefix, Failed
from yak.errors import YakError
from yak.tui.produce.upload import FileFeed, checkpoint_path, rows_settled

TOPIC = Topic("orders", tuple(Partition(number, 1, (1,), (1,)) for number in range(3)))


class Sender:
    """As much of a sender as a feed sees."""

    def __init__(self):
        self.prefix = AckedPrefix()

    def settle_rejected(self, number):
        self.prefix.add(number)


def failed(number, code):
    error = KafkaError(code)
    return Failed(number, from_kafka(error, "x"), was_written(error), reason(error))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "o.csv"
    file.write_text("id,part\n" + "".join(f"u{n},\n" for n in range(6)) + "bad\nu7,9\nu8,1\n")
    return str(file)


def opened(path, **options):
    feed = FileFeed(path, "orders", CsvMapping(key="id", value="id", partition="part"), "utf-8", **options)
    feed.open(TOPIC)
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
    assert rejected(path) == [("8", "1 columns, not 2"), ("9", "no partition 9: there are 3, from 0 on")]
    assert (feed.progress.rows_read, feed.progress.settled, feed.progress.rejected) == (9, 9, 2)
    assert feed.progress.bytes_read == os.path.getsize(path)
    assert not os.path.exists(checkpoint_path(path, "orders"))
    assert rows_settled(path, "orders") == 0


def test_a_file_that_was_stopped_goes_on_with_the_first_row_that_is_not_settled(path):
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


def test_a_row_that_the_cluster_refuses_is_set_aside_and_the_rest_goes_on(path):
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
    with pytest.raises(YakError) as caught:
        rows_settled(path, "orders")
    assert caught.value.code == "resume-unreadable"
    os.remove(checkpoint_path(path, "orders"))
    os.mkdir(checkpoint_path(path, "orders"))
    with pytest.raises(YakError) as caught:
        opened(path)
    assert caught.value.code == "file"
    with pytest.raises(YakError) as caught:
        rows_settled(path + "x", "orders")
    assert caught.value.code == "file"
