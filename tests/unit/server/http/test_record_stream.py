"""A stream's bounds and its signs of life, with a broker_client that a test answers."""

import re
import uuid
from types import SimpleNamespace

import pytest
import trio

from tests.unit.server.http.fake_context import context_of, image_of
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.protocol.record_batch import HEADER
from yak.protocol.record_writer import build_batch
from yak.server.http.problems import Problem
from yak.server.http.routes import stream
from yak.server.http.routes.stream import (
    CHUNK_BYTES,
    EVENTS_MAX,
    IDS_BYTES_MAX,
    RecordStream,
    ResumePoint,
    event_id,
    first_positions,
    ids_of,
    read_event_id,
)
from yak.server.http.topic_partitions import LATEST, LIST_OFFSETS


def batch_at(offset, count=10):
    batch = bytearray(build_batch([(None, b"1")] * count, 1))
    fields = list(HEADER.unpack_from(batch))
    fields[0] = offset
    HEADER.pack_into(batch, 0, *fields)
    return bytes(batch)


def fetch_answer(records, partition=0, error=ErrorCode.none):
    found = SimpleNamespace(partition_index=partition, error_code=error, records=records)
    return SimpleNamespace(error_code=ErrorCode.none, responses=[SimpleNamespace(topic="t", partitions=[found])])


def requested_offset(fields):
    return fields["topics"][0]["partitions"][0]["fetch_offset"]


async def wait_for_ever(*_):
    await trio.sleep_forever()


async def writes(context, positions, seconds=100, takes=None, ids=None):
    """What a stream writes until it ends, the time is over, or its listener has taken so many writes."""
    written = []

    async def write(data):
        written.append(data)
        if len(written) == takes:
            await trio.sleep_forever()

    with trio.move_on_after(seconds):
        await RecordStream(context, positions, "json", ids or ids_of(context, ["t"])).run(write)
    return written


async def test_a_listener_that_takes_nothing_has_nothing_queued(autojump_clock):
    context = context_of(
        image_of({"t": [1]}), lambda _key, fields, _node: fetch_answer(batch_at(requested_offset(fields)))
    )
    written = await writes(context, {TopicPartition("t", 0): 0}, takes=4)
    # one chunk with the listener, one waiting for it, and no more was asked for
    assert len(context.broker_client.requests) == 4
    assert all(fields["max_bytes"] == CHUNK_BYTES for _, fields, _ in context.broker_client.requests)
    assert b"".join(written).count(b"data: ") == 30
    assert b':0=30\ndata: {"topic":"t","partition":0,"offset":29,' in written[-1]


async def test_idle_stream_sends_a_comment(autojump_clock):
    context = context_of(image_of({"t": [1]}), wait_for_ever, heartbeat_ms=15_000)
    written = []

    async def write(data):
        written.append((trio.current_time(), data))

    with trio.move_on_after(50):
        await RecordStream(context, {TopicPartition("t", 0): 7}, "json", ids_of(context, ["t"])).run(write)
    assert re.fullmatch(rb"retry: 2000\nid: t@[\w-]{22}:0=7\n\n", written[0][1])
    assert [data for _, data in written[1:]] == [b": still here\n\n"] * 3
    assert 14 < written[2][0] - written[1][0] < 16


async def test_fetch_is_retried_and_follows_the_leader(autojump_clock):
    requested = []

    def answer(_key, fields, node):
        requested.append(node)
        if node == 1 and len(requested) == 5:
            context.broker.image = image_of({"t": [2]})
        if node == 1:
            raise Problem(503, "broker-unreachable", "gone")
        return fetch_answer(batch_at(requested_offset(fields)))

    context = context_of(image_of({"t": [1]}), answer)
    written = await writes(context, {TopicPartition("t", 0): 5}, takes=3)
    assert requested[:5] == [1] * 5
    assert 1 not in requested[5:]
    assert b'"offset":5,' in written[1]


async def test_recreated_topic_is_another_topic(autojump_clock):
    context = context_of(image_of({"t": [1]}), wait_for_ever)
    written = []

    async def write(data):
        written.append(data)
        context.broker.image = image_of({"other": [1]})

    await RecordStream(context, {TopicPartition("t", 0): 0}, "json", ids_of(context, ["t"])).run(write)
    assert written[-1].startswith(b'event: end\ndata: {"error":"unknown-topic-or-partition"')


async def test_a_stream_has_so_many_partitions_and_no_more(autojump_clock):
    context = context_of(image_of({"t": [1] * 5}), wait_for_ever, stream_partitions_max=4)
    with pytest.raises(Problem, match="at most 4"):
        await first_positions(context, ["t"], ResumePoint({}, {}), False)


def test_an_event_id_says_where_one_is():
    positions = {("a.b-c_d", 0): 5, ("a.b-c_d", 12): 0, ("b", 1): 2**40}
    text = event_id(positions, {"a.b-c_d": uuid.UUID(int=2**128 - 1), "b": uuid.UUID(int=0)})
    assert text == "a.b-c_d@_____________________w:0=5,12=0;b@AAAAAAAAAAAAAAAAAAAAAA:1=1099511627776"
    ids = {"a.b-c_d": "_____________________w", "b": "AAAAAAAAAAAAAAAAAAAAAA"}
    assert read_event_id(text) == (positions, ids)


_ID = "A" * 22


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a:0=5", "a@:1=1", "a@x:1=1", "a@" + "=" * 22 + ":1=1", f"a b@{_ID}:1=1", f"@{_ID}:1=1"),
        *(f"a@{_ID}:{rest}" for rest in ("", "1", "x=1", "1=-1", "1=1;", "0=1,,1=2", "1=" + "9" * 30)),
        *(f"a@{_ID}:{'1=1111111111' * 60}x", f"a@{_ID}:{'1=111' * 60}"),
    ],
)
def test_event_id_that_no_stream_sent_is_refused_at_once(text):
    with pytest.raises(Problem) as refused:
        read_event_id(text)
    assert (refused.value.status, refused.value.error) == (400, "bad-event-id")


def first_and_last(first, last):
    """The leader of partitions that have these offsets."""

    def answer(key, fields, _node):
        assert key == LIST_OFFSETS
        return SimpleNamespace(
            topics=[SimpleNamespace(name=each["name"], partitions=rows(each)) for each in fields["topics"]]
        )

    def rows(topic):
        return [
            SimpleNamespace(
                partition_index=each["partition_index"],
                error_code=ErrorCode.none,
                offset=last if each["timestamp"] == LATEST else first,
            )
            for each in topic["partitions"]
        ]

    return answer


async def test_stream_resumed_reads_partitions_that_its_event_id_lacks_from_their_start():
    """They were added after the event was sent, and the client has none of their records."""
    context = context_of(image_of({"t": [1, 1], "new": [1]}), first_and_last(3, 100))
    resumed = ResumePoint({TopicPartition("t", 0): 7}, {})
    found = await first_positions(context, ["t", "new"], resumed, False)
    assert found == {TopicPartition("t", 0): 7, TopicPartition("t", 1): 3, TopicPartition("new", 0): 100}


async def test_stream_resumed_on_a_topic_that_was_created_again_reads_it_from_its_start():
    context = context_of(image_of({"again": [1], "same": [1]}), first_and_last(0, 100))
    again, same = TopicPartition("again", 0), TopicPartition("same", 0)
    ids = {"again": uuid.UUID(int=5), "same": context.broker.image.topics["same"].topic_id}
    resumed = read_event_id(event_id({again: 7, same: 8}, ids))
    found = await first_positions(context, ["again", "same"], resumed, False)
    assert found == {again: 0, same: 8}


async def test_stream_whose_topic_was_created_again_since_its_positions_were_read_ends(autojump_clock):
    context = context_of(image_of({"t": [1]}), wait_for_ever)
    written = await writes(context, {TopicPartition("t", 0): 7}, ids={"t": uuid.UUID(int=5)})
    assert b"event: end" in written[-1]
    assert b"it was deleted" in written[-1]


async def test_many_small_records_are_written_a_few_at_a_time(autojump_clock):
    """Rendering and sending them at once held the event loop; the records of one read are bounded in number."""
    context = context_of(
        image_of({"t": [1]}),
        lambda _key, fields, _node: fetch_answer(batch_at(0, 3_000) if requested_offset(fields) < 3_000 else b""),
        records_per_request_max=2_000,
    )
    context.broker_client.answer = one_batch(context.broker_client.answer)
    written = await writes(context, {TopicPartition("t", 0): 0}, seconds=1)
    counts = [data.count(b"data: ") for data in written[1:]]
    assert max(counts) <= EVENTS_MAX
    assert re.findall(rb"id: t@[^:]+:0=(\d+)\n", b"".join(written[1:])) == [
        b"%d" % (offset + 1) for offset in range(3_000)
    ]
    assert [requested_offset(fields) for _, fields, _ in context.broker_client.requests] == [0, 2_000, 3_000]


def one_batch(answer):
    """The answer to the fetches of a batch; a later one waits for ever."""

    async def waiting(key, fields, node):
        if requested_offset(fields) >= 3_000:
            await trio.sleep_forever()
        return answer(key, fields, node)

    return waiting


async def test_ids_of_many_partitions_are_written_within_a_bound(autojump_clock):
    context = context_of(image_of({"t": [1] * 200}), lambda _key, fields, _node: fetch_answer(batch_at(0, 3_000)))
    positions = {TopicPartition("t", each): 10**9 if each else 0 for each in range(200)}
    written = await writes(context, positions, seconds=1, takes=4)
    assert len(written) == 4
    for data in written[1:]:
        assert 1 < data.count(b"data: ") <= EVENTS_MAX
        assert len(data) < 2 * IDS_BYTES_MAX


async def test_a_partition_with_a_backlog_does_not_keep_the_others_waiting(autojump_clock):
    """A leader fills its answer with the first partitions of the request (KIP-74)."""

    def first_with_records(_key, fields, _node):
        first = fields["topics"][0]["partitions"][0]
        return fetch_answer(batch_at(first["fetch_offset"]), first["partition"])

    context = context_of(image_of({"t": [1, 1, 1]}), first_with_records)
    written = await writes(context, {TopicPartition("t", each): 0 for each in range(3)}, takes=4)
    assert [data.count(b"data: ") for data in written[1:]] == [10] * 3
    assert {data.split(b'"partition":')[1][:1] for data in written[1:]} == {b"0", b"1", b"2"}


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_stream_of_a_topic_that_its_client_may_not_read_ends_with_the_reason(elsewhere, autojump_clock):
    def answer(_key, _fields, _node):
        if elsewhere:  # this broker checks the rights before it asks another one
            raise Problem(403, "not-allowed", "User:ann may not READ topic 't'")
        return fetch_answer(b"", error=ErrorCode.topic_authorization_failed)

    context = context_of(image_of({"t": [2 if elsewhere else 1]}), answer)
    written = await writes(context, {TopicPartition("t", 0): 0})
    error = b"not-allowed" if elsewhere else b"topic-authorization-failed"
    assert written[-1].startswith(b'event: end\ndata: {"error":"%b"' % error)


async def moving(monkeypatch, *, decodes_in, writes_in):
    """The ids of a stream whose leader moves after its first fetch; these are the seconds of a decoding and of a write."""

    async def answer(_key, fields, node):
        offset = requested_offset(fields)
        if node == 1 and offset == 0:
            context.broker.image = image_of({"t": [2]})
        if offset >= 2_010:
            await trio.sleep_forever()
        return fetch_answer(batch_at(0, 2_000) if offset < 2_000 else batch_at(offset))

    async def decode(_context, work):
        await trio.sleep(decodes_in)
        return work()

    async def write(data):
        written.append(data)
        await trio.sleep(writes_in)

    written = []
    monkeypatch.setattr(stream, "in_thread", decode)
    monkeypatch.setattr(stream, "is_quick", lambda _: not decodes_in)
    context = context_of(image_of({"t": [1]}), answer)
    with trio.move_on_after(100):
        await RecordStream(context, {TopicPartition("t", 0): 0}, "json", ids_of(context, ["t"])).run(write)
    return [int(each) for each in re.findall(rb"id: t@[^:]+:0=(\d+)\ndata", b"".join(written))]


@pytest.mark.parametrize(("decodes_in", "writes_in"), [(3, 0), (0, 3)], ids=["slow-decoding", "slow-client"])
async def test_stream_sends_each_record_once_and_in_order_while_its_leader_moves(
    decodes_in, writes_in, monkeypatch, autojump_clock
):
    """With the id of a record that it got too early, a client would skip those before it when it resumes."""
    assert await moving(monkeypatch, decodes_in=decodes_in, writes_in=writes_in) == list(range(1, 2_011))
