"""Frames of clients: whole however they are cut, answered in turns, refused when they are none."""

import json
import os
import socket
import struct

import pytest
import trio

from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import ProcessHalted, ask, is_closed, one_client, receive, running
from yak.server import connection, log


async def test_a_frame_is_answered():
    async with one_client() as (_broker, stream):
        assert await ask(stream, b"hello there") == b"hello there"


async def test_all_frames_of_one_read_are_one_turn_and_one_send(monkeypatch):
    # on a busy machine 100 frames take longer than a slice
    monkeypatch.setattr(connection, "TURN_SLICE_NS", 10**10)
    async with running() as broker:
        stream = await broker.connect()
        frames = [b"frame %03d" % number for number in range(100)]
        data = b"".join(map(frame, frames))
        await stream.send_all(data)
        assert await receive(stream, len(data)) == data
        assert broker.core.turns[0] == frames
        assert broker.shell.counters.sends == 1


@pytest.mark.parametrize("size", [8, 1000, 200_000, 300_000, 3_000_000])
@pytest.mark.parametrize("piece", [7, 5_000, 100_000, 10_000_000])
async def test_frames_of_any_size_arrive_whole_however_they_are_cut(size, piece):
    if size > 20_000 * piece:
        pytest.skip("too many pieces to be quick")
    if piece == 7:
        size = min(size, 1000)
    async with one_client() as (_broker, stream):
        frames = [os.urandom(size), b"a small one", os.urandom(size), os.urandom(size // 2 + 8)]
        data = b"".join(map(frame, frames))
        received: list[bytes] = []
        async with trio.open_nursery() as nursery:

            async def collect() -> None:
                received.append(await receive(stream, len(data)))

            nursery.start_soon(collect)
            for start in range(0, len(data), piece):
                await stream.send_all(data[start : start + piece])
                await trio.lowlevel.checkpoint()
        assert received == [data]


async def refused(data: bytes, kind: str) -> None:
    async with running() as broker:
        stream = await broker.connect()
        await stream.send_all(data)
        assert await is_closed(stream)
        assert broker.shell.counters.bad_requests == {kind: 1}
        assert not broker.core.turns[0]
        await broker.is_healthy()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http"),
        (b"POST /topics HTTP/1.1\r\n", "http"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (struct.pack(">i", -1), "bad-length"),
        (struct.pack(">i", -(2**31)), "bad-length"),
        (struct.pack(">i", 0), "bad-length"),
        (struct.pack(">i", 7), "bad-length"),
        (struct.pack(">i", 100 * 1024 * 1024 + 1), "frame-too-large"),
        (struct.pack(">i", 2**31 - 1), "frame-too-large"),
    ],
)
async def test_a_length_that_cannot_be_closes_the_connection(data, kind):
    await refused(data, kind)


async def test_frames_before_a_bad_one_are_answered():
    async with running() as broker:
        stream = await broker.connect()
        await stream.send_all(frame(b"a good one") + struct.pack(">i", -5))
        assert await receive(stream, 1000) == frame(b"a good one")
        await broker.is_healthy()


@pytest.mark.parametrize("reset", [False, True])
async def test_half_a_frame_and_then_the_end_is_dropped_in_silence(reset):
    async with running() as broker:
        stream = await broker.connect()
        await stream.send_all(struct.pack(">i", 1000) + b"half")
        if reset:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await broker.ends_healthy()
        assert broker.core.turns[0] == [b"healthy?"]
        assert broker.shell.counters.bugs == 0


@pytest.mark.parametrize("word", [b"bug.....", b"assert..", b"effect.."])
def test_exception_out_of_core_halts_process_and_nothing_of_that_turn_is_sent(word, caplog):
    received: list[bytes] = []

    async def main() -> None:
        async with running() as broker:
            stream, other = await broker.connect(), await broker.connect()
            assert await ask(other, b"served before") == b"served before"
            await stream.send_all(frame(b"first one") + frame(word) + frame(b"never stepped"))
            received.append(await receive(stream, 1000))
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as raised:
        trio.run(main)
    assert raised.value.subgroup(lambda error: isinstance(error, ProcessHalted) and error.args == (6,))
    assert received in ([], [b""])
    (line,) = [record for record in caplog.records if record.getMessage() == "broker-halted"]
    assert line.exc_info is not None
    as_json = json.loads(log.JsonFormatter().format(line))
    assert as_json["event"] == "broker-halted"
    assert as_json["during"]


async def test_close_sends_what_is_queued_first():
    async with running() as broker:
        stream = await broker.connect()
        await stream.send_all(frame(b"big..... 1") + frame(b"close... now") + frame(b"not stepped"))
        assert len(await receive(stream, 10_000_000)) == 3_000_004 + 7
        await broker.is_healthy()
        assert broker.core.turns[0] == [b"big..... 1"] or broker.core.turns[0][-1] == b"close... now"
