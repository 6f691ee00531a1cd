"""The kernel wakes a reader of a large frame when enough of it is there, and never leaves it waiting for nothing."""

import select
import socket
import sys
from collections.abc import Iterator

import pytest

from yak.server.low_water import FROM_BYTES, UP_TO_BYTES, LowWater, heeds_mark

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux wakes readers by the mark")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        with other:
            yield one, other


def is_readable(sock: socket.socket, seconds: float) -> bool:
    with select.epoll() as poll:
        poll.register(sock, select.EPOLLIN)
        return bool(poll.poll(seconds))


@linux
def test_a_reader_is_woken_when_what_is_missing_is_there(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, reader = pair
    assert LowWater().mark(reader, 100_000)
    sender.sendall(bytes(60_000))
    assert not is_readable(reader, 0.1)
    sender.sendall(bytes(40_000))
    assert is_readable(reader, 10)


@linux
def test_the_next_frame_wakes_it_with_its_first_byte(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, reader = pair
    mark = LowWater()
    assert mark.mark(reader, 100_000)
    assert not mark.mark(reader, 0)
    sender.sendall(b"x")
    assert is_readable(reader, 10)


@linux
def test_the_end_of_the_connection_wakes_it(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, reader = pair
    LowWater().mark(reader, 100_000)
    sender.sendall(bytes(10))
    sender.shutdown(socket.SHUT_WR)
    assert is_readable(reader, 10)


@linux
def test_a_buffer_made_small_wakes_it_when_it_is_full(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, reader = pair
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    LowWater().mark(reader, UP_TO_BYTES)
    sender.setblocking(False)
    while True:
        try:
            sender.send(bytes(65_536))
        except BlockingIOError:
            break
    assert is_readable(reader, 10)


@pytest.mark.parametrize("missing", [0, 1, FROM_BYTES - 1, -5])
def test_little_is_not_waited_for(missing: int) -> None:
    class NoSocket:
        def setsockopt(self, *_arguments: int) -> None:
            raise AssertionError("a call for nothing")

    assert not LowWater().mark(NoSocket(), missing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("platform", "release", "heeds"),
    [
        ("linux", "6.18.44-fc", True),
        ("linux", "5.12.0", True),
        ("linux", "5.11.22", False),
        ("linux", "4.18.0-553.el8", False),
        ("linux", "4.4.0", False),
        ("linux", "3.10.0-1160.el7", False),
        ("linux", "strange", False),
        ("darwin", "23.1.0", False),
    ],
)
def test_old_kernels_and_other_systems_are_not_called(platform: str, release: str, heeds: bool) -> None:
    assert heeds_mark(platform, release) is heeds
