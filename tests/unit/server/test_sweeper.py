"""Which connections the sweeper closes when the memory of requests and replies is full."""

from types import SimpleNamespace
from typing import Any

from yak.server.receive_buffer import Memory
from yak.server.shell import ConnectionLimits, Counters
from yak.server.sweeper import _STALLED_MS, _make_room

LATER_MS = _STALLED_MS + 100


class Reader:
    """A connection with unsent replies."""

    def __init__(self, memory: Memory, unsent_bytes: int, slice_bytes: int = 0) -> None:
        self.unsent_bytes, self.slice_bytes, self.drained_bytes, self.last_active_ms = unsent_bytes, slice_bytes, 0, 0
        self.peer, self.is_closed, self._memory = "h:1", False, memory
        memory.change(unsent_bytes - slice_bytes)

    def close(self, _reason: str, *, now: bool) -> None:
        assert now
        self.is_closed = True
        self._memory.change(self.slice_bytes - self.unsent_bytes)

    def flush(self) -> None:
        pass


def shell_of(memory: Memory, *readers: Reader) -> Any:
    write = SimpleNamespace(write=lambda *_given: None)
    own = {"connections": dict(enumerate(readers)), "counters": Counters(), "limits": ConnectionLimits()}
    return SimpleNamespace(memory=memory, rate_limit=write, **own)


def test_connection_whose_client_reads_a_packet_now_and_then_is_closed_in_full_memory() -> None:
    memory = Memory(100)
    slow, fast, from_file = Reader(memory, 90), Reader(memory, 60), Reader(memory, 500, slice_bytes=500)
    shell = shell_of(memory, slow, fast, from_file)
    before = _make_room(shell, 0, {})
    fast.drained_bytes = 100_000
    for each in (slow, fast, from_file):
        each.drained_bytes += 1_460
        each.last_active_ms = LATER_MS - 10
    _make_room(shell, LATER_MS, before)
    assert [each.is_closed for each in (slow, fast, from_file)] == [True, False, False]
    assert shell.counters.bad_requests == {"answers-not-read": 1}


def test_stalled_connections_are_closed_until_half_of_the_memory_is_free() -> None:
    memory = Memory(100)
    readers = [Reader(memory, size) for size in (20, 60, 40)]
    _make_room(shell_of(memory, *readers), LATER_MS, {})
    assert [each.is_closed for each in readers] == [False, True, True]


def test_slow_client_is_not_closed_while_memory_has_room() -> None:
    memory = Memory(100)
    slow = Reader(memory, 90)
    shell = shell_of(memory, slow)
    before = _make_room(shell, 0, {})
    assert _make_room(shell, LATER_MS, before) == {slow: (0, 0)}
    assert not slow.is_closed
    memory.change(20)
    _make_room(shell, LATER_MS, before)
    assert slow.is_closed


def test_slow_client_is_not_closed_before_memory_was_half_full_for_a_while() -> None:
    memory = Memory(100)
    slow = Reader(memory, 150)
    shell = shell_of(memory, slow)
    slow.last_active_ms = LATER_MS
    assert _make_room(shell, LATER_MS, {}) == {slow: (LATER_MS, 0)}
    assert not slow.is_closed
