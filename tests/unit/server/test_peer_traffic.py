"""`yak.server.peers` with real sockets on this host: what a connection brings, and what is sent over it."""

import random
import struct

import pytest
import trio
import trio.testing

from tests.unit.server.frames import frame
from tests.unit.server.peers_rig import FakeCore, connected, reset
from tests.unit.server.shell_rig import ProcessHalted, receive
from yak.core.events import ClosePeer, Effect, Event, PeerAnswered, PeerConnected, PeerLost, SendPeer
from yak.server.answer_buffer import SMALLEST_BYTES

# ------------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize("piece", [1, 3_000, 100_000, 1 << 30])
@pytest.mark.parametrize("sizes", [[4], [10, 20, 30], [SMALLEST_BYTES - 4, SMALLEST_BYTES, 5], [70_000, 4, 1_000_000]])
async def test_answers_of_any_size_come_whole_and_in_order_however_they_are_cut(piece: int, sizes: list[int]) -> None:
    if sum(sizes) > 20_000 * piece:
        pytest.skip("too many pieces to be quick")
    async with connected() as (broker, stream):
        rng = random.Random(piece)
        answers = [rng.randbytes(size) for size in sizes for _ in range(3)]
        data = b"".join(map(frame, answers))
        for start in range(0, len(data), piece):
            await stream.send_all(data[start : start + piece])
        await broker.until(lambda: len(broker.core.answers) == len(answers))
        assert broker.core.answers == answers


async def test_an_answer_of_ten_megabytes_comes_whole() -> None:
    async with connected() as (broker, stream):
        answer = random.Random(1).randbytes(10_000_000)
        for _ in range(3):
            await stream.send_all(frame(answer))
            await broker.until(lambda: bool(broker.core.answers))
            assert broker.core.answers.pop() == answer


async def test_all_answers_of_one_read_are_one_turn_and_what_they_ask_for_leaves_in_one_send() -> None:
    core = FakeCore(reaction=lambda event: [SendPeer(1, [b"next"])] if isinstance(event, PeerAnswered) else [])
    async with connected(core) as (broker, stream):
        answers = [b"answer %d" % number for number in range(20)]
        await stream.send_all(b"".join(map(frame, answers)) + b"\0\0")
        assert await receive(stream, 80) == b"next" * 20
        assert core.turns[0] == answers
        assert broker.shell.counters.sends == 1
        await stream.send_all(b"\0\x05small")
        await broker.until(lambda: len(core.answers) == 21)
        assert core.answers[-1] == b"small"


async def test_half_an_answer_is_no_turn() -> None:
    async with connected() as (broker, stream):
        turns = broker.shell.counters.turns
        await stream.send_all(frame(bytes(20_000))[:10_000])
        await broker.until(lambda: broker.shell.counters.received_bytes == 10_000)
        assert broker.shell.counters.turns == turns
        await stream.send_all(bytes(10_004))
        await broker.until(lambda: bool(broker.core.answers))


async def test_after_a_close_the_rest_of_a_read_is_not_stepped() -> None:
    core = FakeCore(reaction=lambda event: [ClosePeer(1)] if isinstance(event, PeerAnswered) else [])
    async with connected(core) as (broker, stream):
        await stream.send_all(frame(b"first") + frame(b"second"))
        await broker.until(lambda: bool(core.answers))
        await trio.testing.wait_all_tasks_blocked()
        assert core.answers == [b"first"]
        assert core.events == [PeerConnected(1)]
        assert not broker.shell.nursery.child_tasks


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, 1001, 2**31 - 1])
async def test_a_length_that_no_answer_has_ends_the_connection(length: int) -> None:
    async with connected(peer_answer_bytes_max=1000) as (broker, stream):
        await stream.send_all(frame(b"a good one") + struct.pack(">i", length))
        assert await broker.lost() == PeerLost(1, "unreachable", f"a response of {length} bytes")
        assert broker.core.answers == [b"a good one"]
        stream.socket.close()


async def test_the_largest_answer_allowed_is_taken() -> None:
    async with connected(peer_answer_bytes_max=100_000) as (broker, stream):
        await stream.send_all(frame(bytes(100_000)))
        await broker.until(lambda: bool(broker.core.answers))


def test_exception_out_of_core_in_an_answer_halts_process() -> None:
    async def main() -> None:
        def fail(event: Event) -> list[Effect]:
            if isinstance(event, PeerAnswered):
                raise ZeroDivisionError("a bug")
            return []

        async with connected(FakeCore(reaction=fail)) as (_broker, stream):
            await stream.send_all(frame(b"hello"))
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as raised:
        trio.run(main)
    assert raised.value.subgroup(ProcessHalted)


# ------------------------------------------------------------------------------------------------------ sending


async def test_a_peer_that_does_not_read_gets_everything_once_it_does_and_is_read_all_the_while() -> None:
    async with connected() as (broker, stream):
        data = random.Random(2).randbytes(12_000_000)
        broker.ask(SendPeer(1, [data[:5], data[5:8_000_000]]))
        broker.ask(SendPeer(1, [data[8_000_000:]]))
        await stream.send_all(frame(b"meanwhile"))
        await broker.until(lambda: broker.core.answers == [b"meanwhile"])
        assert await receive(stream, len(data)) == data
        broker.ask(SendPeer(1, [b"more"]))
        assert await receive(stream, 4) == b"more"


async def test_a_peer_that_is_lost_with_much_unsent_is_lost_once() -> None:
    async with connected() as (broker, stream):
        broker.ask(SendPeer(1, [bytes(12_000_000)]))
        reset(stream)
        assert (await broker.lost()).how == "reset"
        broker.ask(SendPeer(1, [b"too late"]), ClosePeer(1))
        await trio.testing.wait_all_tasks_blocked()
        assert not broker.shell.nursery.child_tasks
        assert len(broker.core.events) == 2


async def test_peer_connection_may_be_closed_with_much_unsent_data() -> None:
    async with connected() as (broker, stream):
        broker.ask(SendPeer(1, [bytes(12_000_000)]))
        await trio.testing.wait_all_tasks_blocked()
        broker.ask(ClosePeer(1))
        await trio.testing.wait_all_tasks_blocked()
        assert not broker.shell.nursery.child_tasks
        assert broker.core.events == [PeerConnected(1)]
        stream.socket.close()
