"""The reading thread with a feed of the test's own instead of librdkafka."""

import itertools
import threading
import time

import pytest

from tests.messages import kafka_message
from yak.client.offset_spec import START
from yak.errors import Unreachable, UsageError, YakError
from yak.ids import TopicPartition
from yak.tui.messages.feeds import OpenedFeed, assignment_text
from yak.tui.messages.reader import Limits, Reader
from yak.tui.messages.subscription import Choice, Seek, Subscription

ORDERS = TopicPartition("orders", 0)
BROWSE = Subscription((Choice("orders"),), Seek(START))
TAIL = Subscription((Choice("orders"),))
GROUP = Subscription((Choice("orders"),), group="audit")


def message(offset, value=b"x"):
    key = b"k%d" % (offset % 3)
    return kafka_message("orders", 0, offset, timestamp=(1, 1000 + offset), key=key, value=value)


class FakeFeed:
    """Gives `backlog` from an offset on, in batches."""

    must_poll = False
    is_joining = False

    def __init__(self, backlog, start=0, *, is_done_at_end=False):
        self.backlog, self.at = backlog, start
        self.is_done_at_end = is_done_at_end
        self.is_paused = False
        self.events = []
        self.partitions = (ORDERS,)
        self.added = []

    @property
    def is_done(self):
        return self.is_done_at_end and self.at >= len(self.backlog)

    def fetch(self, limit, wait_s):
        if self.is_paused:
            time.sleep(0.001)
            return []
        found = self.backlog[self.at : self.at + limit]
        self.at += len(found)
        if not found:
            time.sleep(0.001)
        return found

    def pause(self):
        self.is_paused = True
        self.events.append("pause")

    def resume(self):
        self.is_paused = False
        self.events.append("resume")

    def behind(self):
        return len(self.backlog) - self.at

    def find_partitions(self):
        found, self.added = self.added, []
        return found

    def commit_now(self):
        self.events.append("commit")
        return ""

    def close(self):
        self.events.append("close")


@pytest.fixture
def made():
    """Readers that a test starts, ended with it."""
    readers = []

    def make(feed, wanted=BROWSE, **more):
        opened = feed if callable(feed) else lambda *_args, **_more: OpenedFeed(feed, [])
        reader = Reader(lambda: "nowhere:1", wanted, open_=opened, **more)
        readers.append(reader)
        reader.start()
        return reader

    yield make
    for reader in readers:
        reader.close()
    for reader in readers:
        assert reader.join(60)


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def offsets(reader):
    return [record.offset for piece in reader.store.pieces(1000) for record in piece]


def backlog(count):
    return [message(offset, b'{"n":%d}' % offset) for offset in range(count)]


def test_reader_stops_at_a_full_buffer(made):
    feed = FakeFeed(backlog(3000))
    reader = made(feed, limits=Limits(rows=1000))
    until(lambda: reader.status.phase == "full")
    assert feed.events == ["pause"]
    assert offsets(reader) == list(range(1000))
    reader.more()
    until(lambda: feed.at >= 1500 and reader.status.phase == "full")
    assert offsets(reader)[0] == 500
    assert reader.store.counts().dropped == 500
    assert feed.events == ["pause", "resume", "pause"]


def test_reader_reports_done_when_no_more_records_can_come(made):
    reader = made(FakeFeed(backlog(10), is_done_at_end=True))
    until(lambda: reader.status.phase == "done")
    assert offsets(reader) == list(range(10))
    assert (reader.status.read, reader.status.scanned) == (10, 10)


def test_a_pause_reads_nothing_and_loses_nothing(made):
    feed = FakeFeed(backlog(5))
    reader = made(feed)
    until(lambda: len(offsets(reader)) == 5)
    reader.pause()
    until(lambda: reader.status.phase == "paused")
    feed.backlog += [message(offset) for offset in range(5, 9)]
    time.sleep(0.05)
    assert len(offsets(reader)) == 5
    reader.pause(False)
    until(lambda: offsets(reader) == list(range(9)))
    assert reader.status.phase == "reading"


def test_a_filter_holds_for_what_is_there_and_for_what_comes(made):
    feed = FakeFeed(backlog(1000))
    reader = made(feed)
    until(lambda: len(offsets(reader)) == 1000)
    reader.set_filter("v:.n > 990 && k:k1")
    until(lambda: offsets(reader) == [991, 994, 997])
    assert reader.status.scanned == 1000
    feed.backlog += backlog(1010)[1000:]
    until(lambda: offsets(reader) == [991, 994, 997, 1000, 1003, 1006, 1009])
    assert reader.status.scanned == 1010
    reader.set_filter("")
    until(lambda: len(offsets(reader)) == 1010)


def test_a_filter_that_is_none_is_refused_where_it_is_typed(made):
    reader = made(FakeFeed([]))
    with pytest.raises(UsageError):
        reader.set_filter("k:~(")
    assert reader.filter_text == ""


def test_records_left_out_for_lack_of_room_are_read_again_for_another_filter(made):
    feeds = []

    def open_(*_args, **_more):
        feeds.append(FakeFeed(backlog(2000), is_done_at_end=True))
        return OpenedFeed(feeds[-1], [])

    reader = made(lambda *a, **k: open_(), limits=Limits(rows=100))
    reader.set_filter("v:.n >= 1990")
    until(lambda: reader.status.phase == "done")
    assert offsets(reader) == list(range(1990, 2000))
    assert reader.store.left_out > 0
    reader.set_filter("v:.n < 5")
    until(lambda: offsets(reader) == [0, 1, 2, 3, 4] and reader.status.phase == "done")
    assert len(feeds) >= 2
    assert feeds[0].events[-1] == "close"


def test_a_tail_shows_some_of_many_and_says_so(made):
    now = [100.0]
    released = threading.Semaphore(0)

    class Paced(FakeFeed):
        def fetch(self, limit, wait_s):
            if not released.acquire(timeout=0.01):
                return []
            now[0] += 0.05
            return super().fetch(limit, wait_s)

    feed = Paced(backlog(30_000))
    reader = made(feed, TAIL, clock=lambda: now[0])
    for _ in range(60):
        released.release()
    until(lambda: reader.status.read == 30_000)
    assert reader.status.every == 20
    assert reader.status.rate == pytest.approx(10_000, rel=0.06)
    now[0] += 0.25
    until(lambda: reader.status.behind == 0)
    assert len([offset for offset in offsets(reader) if offset >= 20_000]) == pytest.approx(500, abs=5)


def test_tail_does_not_sample_earlier_records(made):
    feed = FakeFeed(backlog(4000))
    reader = made(lambda *_a, **_m: OpenedFeed(feed, [], {ORDERS: 4000}), TAIL)
    until(lambda: len(offsets(reader)) == 4000)


def test_tail_sorts_earlier_records_by_time(made):
    messages = backlog(20)
    messages = messages[10:] + messages[:10]
    feed = FakeFeed(messages)
    new_from = {ORDERS: 10_000}
    reader = made(lambda *_a, **_m: OpenedFeed(feed, [], new_from), TAIL)
    until(lambda: len(offsets(reader)) == 20)
    assert offsets(reader) == list(range(20)), "what does not come is waited for only a moment"


def test_a_tail_under_a_filter_tries_every_record_and_samples_those_that_hold(made):
    feed = FakeFeed(backlog(4_000))
    feed.is_paused = True  # until the filter is there: what was sampled away before is never tried
    reader = made(feed, TAIL)
    reader.set_filter("v:3999")
    feed.is_paused = False
    until(lambda: reader.status.scanned == 4_000)
    until(lambda: offsets(reader) == [3_999])


def test_readers_that_share_a_numbering_never_give_a_serial_twice(made):
    numbering = itertools.count()
    readers = [made(FakeFeed(backlog(500)), numbering=numbering) for _ in range(3)]
    until(lambda: all(len(offsets(reader)) == 500 for reader in readers))
    serials = [each.serial for reader in readers for piece in reader.store.pieces(100) for each in piece]
    assert sorted(serials) == list(range(1500))


def test_a_cluster_that_is_not_there_yet_is_waited_for(made):
    answers = [Unreachable("unreachable", "nobody answers"), None]

    def open_(*_args, **_more):
        failure = answers.pop(0) if answers else None
        if failure is not None:
            raise failure
        return OpenedFeed(FakeFeed(backlog(3)), [])

    reader = made(open_)
    until(lambda: reader.status.phase == "waiting")
    assert reader.status.error.code == "unreachable"
    until(lambda: len(offsets(reader)) == 3)
    assert reader.status.error is None


def test_reader_reports_an_unexpected_exception(made):
    def open_(*_args, **_more):
        raise ZeroDivisionError("oops")

    reader = made(open_)
    until(lambda: reader.status.phase == "failed")
    assert "ZeroDivisionError: oops" in reader.status.error.why


def test_group_offsets_are_committed_on_request(made):
    feed = FakeFeed(backlog(7))
    feed.must_poll = True
    reader = made(feed, GROUP)
    until(lambda: reader.status.uncommitted == 7)
    assert reader.commit().result(10) == ""
    until(lambda: reader.status.uncommitted == 0)
    assert "commit" in feed.events


def test_failed_commit_returns_the_reason(made):
    class Refused(FakeFeed):
        def commit_now(self):
            raise YakError("not-committed", "no")

    reader = made(Refused(backlog(1)), GROUP)
    with pytest.raises(YakError):
        reader.commit().result(10)


def test_reader_notes_added_partitions(made):
    now = [100.0]
    feed = FakeFeed(backlog(1))
    feed.added = [TopicPartition("orders", 7)]
    reader = made(feed, TAIL, clock=lambda: now[0])
    until(lambda: reader.status.read == 1)
    assert reader.status.notes == ()
    now[0] += 6
    until(lambda: reader.status.notes != ())
    assert "orders-7 was added" in reader.status.notes[0]


def test_assignment_text():
    from yak.client.groups.group_reader import Started

    assert "the other members have them all" in assignment_text([])
    started = [Started(TopicPartition("orders", number), 5, 5 if number else None) for number in range(6)]
    assert assignment_text(started) == (
        "reads orders-0, orders-1, orders-2, orders-3, …: 1 of 6 with nothing committed"
    )
    assert assignment_text(started[1:2]) == "reads orders-1: from the committed offset"
