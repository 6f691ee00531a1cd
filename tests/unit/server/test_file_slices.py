"""Parts of files that the kernel sends: of what is cached, in order with other replies, also to a slow reader."""

import contextlib
import os
import socket

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.server.shell_rig import IdleCore, running
from yak.core.events import FrameReceived, Reply
from yak.limits import UNSENT_IN_KERNEL_BYTES
from yak.server import send_queue
from yak.server.disk import RealDisk
from yak.server.file_slices import PooledSlice
from yak.server.send_queue import SendQueue

DATA = os.urandom(3_000_000)


@pytest.fixture
def file(tmp_path):
    disk = RealDisk(max_open_files=16)
    file = disk.open(str(tmp_path / "data.log"), create=True)
    file.append([DATA])
    yield file
    disk.pool.close_all()


def cut(file, size, position):
    part = file.slice_cached(size, position)
    if part is None:
        pytest.skip("this kernel cannot tell what is cached (cachestat, Linux 6.5)")
    return part


def test_a_slice_is_made_of_cached_bytes_and_of_no_others(file):
    assert bytes(cut(file, 100_000, 5_000)) == DATA[5_000:105_000]
    assert file.slice_cached(100_000, len(DATA) - 50_000) is None


def test_a_slice_that_outlives_its_file_ends_with_an_error(file):
    left, right = socket.socketpair()
    with left, right:
        part = cut(file, 200_000, len(DATA) - 200_000)
        file.truncate(len(DATA) - 200_000)
        with pytest.raises(OSError, match="shorter"):
            part.send(left.fileno())


def test_a_slice_ends_with_an_error_where_other_records_replaced_its_bytes(file):
    """A truncation below the high watermark: an unclean election, and then the records of the new leader."""
    whole, begun, below = cut(file, 200_000, 2_000_000), cut(file, 200_000, 1_900_000), cut(file, 200_000, 1_800_000)
    begun.take(50_000)
    file.truncate(2_000_000)
    file.append([os.urandom(1_000_000)])
    left, right = socket.socketpair()
    with left, right:
        for part in (whole, begun):
            for read in (bytes, lambda part: part.take(1_000), lambda part: part.send(left.fileno())):
                with pytest.raises(OSError, match="shorter"):
                    read(part)
    assert bytes(below) == DATA[1_800_000:2_000_000]
    assert len(bytes(cut(file, 200_000, 2_000_000))) == 200_000


@contextlib.contextmanager
def connected():
    """A TCP socket that does not block, and its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as right:
        left, _ = listener.accept()
        with left:
            left.setblocking(False)
            yield left, right


class Sender(SendQueue):
    def flush(self) -> None:
        raise NotImplementedError


class NotedSocket:
    """A socket that notes which options are set."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.options: list[int] = []

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.options.append(option)
        self.sock.setsockopt(level, option, value)

    def __getattr__(self, name: str) -> object:
        return getattr(self.sock, name)


def test_the_kernel_takes_slices_in_portions_and_holds_no_end_of_one_back(file):
    with connected() as (sender, client):
        noted = NotedSocket(sender)
        outgoing = Sender(noted)
        outgoing.queue([b"<" * 20_000, cut(file, 2_000_000, 0)])
        outgoing.send()
        assert outgoing.outgoing, "the kernel took it all"
        assert sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_IN_KERNEL_BYTES
        assert socket.SO_SNDBUF in noted.options
        assert noted.options[-1] == socket.TCP_NODELAY
        got = bytearray()
        while len(got) < 2_020_000:
            outgoing.send()
            got += client.recv(1 << 20)
    assert got == b"<" * 20_000 + DATA[:2_000_000]


def test_the_send_buffer_of_a_distant_client_grows_as_the_link_needs(file, monkeypatch):
    monkeypatch.setattr(send_queue, "round_trip_ms", lambda _: 20)
    with connected() as (sender, _client):
        noted = NotedSocket(sender)
        outgoing = Sender(noted)
        outgoing.queue([cut(file, 2_000_000, 0)])
        outgoing.send()
        assert socket.SO_SNDBUF not in noted.options


class Slicer(IdleCore):
    """A core that answers every frame with bytes, a slice, and bytes."""

    def __init__(self, file) -> None:
        self.file = file

    def step(self, event, now_ms):
        if type(event) is FrameReceived:
            size = int.from_bytes(event.frame, "big")
            return [Reply(1, [b"<" * 10, cut(self.file, size, 1_000), b">" * 20_000])]
        return []


async def ask(port: int, sizes: list[int], pause: float) -> bytes:
    got = bytearray()
    expected = sum(size + 20_010 for size in sizes)
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"".join((8).to_bytes(4, "big") + size.to_bytes(8, "big") for size in sizes))
        while len(got) < expected:
            got += await stream.receive_some(50_000)
            if pause:
                await trio.sleep(pause)
    return bytes(got)


@pytest.mark.parametrize("pause", [0, 0.0005])
async def test_slices_and_bytes_arrive_in_order(file, pause):
    sizes = [70_000, 2_500_000, 64_000]
    async with running(core=Slicer(file)) as broker:
        with trio.fail_after(20):
            got = await ask(broker.port, sizes, pause)
    expected = b"".join(b"<" * 10 + DATA[1_000 : 1_000 + size] + b">" * 20_000 for size in sizes)
    assert got == expected


async def test_answer_whose_file_failed_is_the_last_of_its_connection(file):
    async with running(core=Slicer(file)) as broker, await trio.open_tcp_stream("127.0.0.1", broker.port) as stream:
        shell = broker.shell
        await broker.until(lambda: len(shell.selector._readers) == 1)
        (connection,) = shell.connections.values()
        part = cut(file, 200_000, len(DATA) - 200_000)
        file.truncate(len(DATA) - 200_000)
        for parts in ([b"<" * 20_000, part], [b">" * 200_000]):  # before the task that ends the connection runs
            shell.begin_turn()
            shell.carry_out([Reply(connection.connection_id, parts)])
            shell.end_turn()
        received = bytearray()
        with contextlib.suppress(trio.BrokenResourceError):
            while more := await stream.receive_some():
                received += more
        assert received in (b"", b"<" * 20_000)


@pytest.mark.parametrize("remaining", [0, 3_000])
def test_the_end_of_a_slice_whose_file_became_shorter_ends_with_an_error(file, remaining):
    """So few bytes are joined with others and sent from memory: a count that is never reached would never end."""
    with connected() as (left, _right):
        sender = Sender(left)
        sender.queue([b"head", cut(file, 5_000, len(DATA) - 5_000), b"tail"])
        file.truncate(len(DATA) - 5_000 + remaining)
        with pytest.raises(OSError, match="shorter"):
            sender.send()


def test_an_empty_part_before_a_slice_is_left_out(file):
    with connected() as (left, right):
        sender = Sender(left)
        sender.queue([b"head", b"", cut(file, 30_000, 0)])
        sender.send()
        assert sender.outgoing == []
        assert right.recv(30_004, socket.MSG_WAITALL) == b"head" + DATA[:30_000]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.tuples(st.booleans(), st.integers(1, 200_000)), min_size=1, max_size=12))
def test_bytes_in_slices_are_counted_without_reading_the_queue(file, sizes):
    with connected() as (left, right):
        right.setblocking(False)
        sender, expected = Sender(left), bytearray()
        for in_file, size in sizes:
            sender.queue([cut(file, size, 0) if in_file else DATA[:size]])
            expected += DATA[:size]
        received = bytearray()
        while len(received) < len(expected):
            sender.send()
            in_slices = sum(len(part) for part in sender.outgoing if type(part) is PooledSlice)
            assert sender.slice_bytes == in_slices
            assert sender.unsent_bytes == sum(map(len, sender.outgoing))
            with contextlib.suppress(BlockingIOError):
                received += right.recv(1 << 20)
        assert received == expected
