"""`yak.server.answer_buffer`: answers come out whole, and the buffer is as large as they need."""

import contextlib
import random
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.server.frames import frame
from yak.server.answer_buffer import SMALLEST_BYTES, AnswerBuffer, BadLengthError


def fed(buffer: AnswerBuffer, far: socket.socket, near: socket.socket, data: bytes) -> list[bytes]:
    frames = []
    far.setblocking(False)
    while data:
        data = data[far.send(data) :]
        with contextlib.suppress(BlockingIOError):
            while True:
                buffer.receive(near)
                while (view := buffer.next_frame()) is not None:
                    frames.append(bytes(view))
    return frames


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    far, near = socket.socketpair()
    with far, near:
        near.setblocking(False)
        yield far, near


def test_the_buffer_grows_with_what_was_received_and_not_with_what_was_announced(pair):
    buffer = AnswerBuffer(1 << 30)
    fed(buffer, *pair, struct.pack(">i", 900_000_000) + bytes(1000))
    assert len(buffer._buffer) == SMALLEST_BYTES
    fed(buffer, *pair, bytes(100_000))
    assert len(buffer._buffer) <= 4 * 101_004


def test_the_buffer_fits_the_largest_answers_of_late(pair):
    buffer = AnswerBuffer(1 << 30)
    for size in (900_000, 1_000_000, 1_040_000):
        assert fed(buffer, *pair, frame(bytes(size))) == [bytes(size)]
        assert len(buffer._buffer) == 1 << 20
    for _ in range(200):
        fed(buffer, *pair, frame(bytes(1000)))
    assert len(buffer._buffer) == SMALLEST_BYTES


def test_a_view_that_is_still_about_does_not_stop_the_buffer_from_growing(pair):
    far, near = pair
    buffer = AnswerBuffer(1 << 30)
    far.sendall(frame(b"kept"))
    buffer.receive(near)
    view = buffer.next_frame()
    assert fed(buffer, far, near, frame(bytes(200_000))) == [bytes(200_000)]
    assert view is not None


@settings(max_examples=200)
@given(sizes=st.lists(st.integers(4, 60_000) | st.integers(4, 40), max_size=30), seed=st.integers(0, 2**32))
def test_answers_are_the_same_however_the_bytes_are_split_over_reads(sizes, seed):
    class Pieces:
        """A socket whose every read brings a random part of what is left."""

        def __init__(self, data: bytes) -> None:
            self.data = data

        def recv_into(self, view: memoryview) -> int:
            count = min(len(view), len(self.data), rng.choice([1, 3, 100, 20_000, 1 << 20]))
            view[:count] = self.data[:count]
            self.data = self.data[count:]
            return count

    rng = random.Random(seed)
    answers = [rng.randbytes(size) for size in sizes]
    pieces = Pieces(b"".join(map(frame, answers)))
    buffer = AnswerBuffer(60_000)
    out = []
    while buffer.receive(pieces):  # type: ignore[arg-type]
        while (view := buffer.next_frame()) is not None:
            out.append(bytes(view))
    assert out == answers
    assert len(buffer._buffer) <= 1 << 16


def test_a_bad_length_is_refused_as_soon_as_it_can_be_read(pair):
    far, near = pair
    buffer = AnswerBuffer(100)
    far.sendall(struct.pack(">i", 101))
    buffer.receive(near)
    with pytest.raises(BadLengthError, match="a response of 101 bytes"):
        buffer.next_frame()
