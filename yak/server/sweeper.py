"""Once a second: close connections past a deadline, detect stuck jobs, and measure how late the event loop woke.

Deadlines are timestamps that only this task compares, so they cost nothing per frame.
"""

from typing import Final, TypeAlias

import trio

from yak.server.connection import Connection
from yak.server.shell import SLOW_TURN_MS, Shell

_EVERY_SECONDS: Final = 1.0
_SPARES_IDLE_ROUNDS: Final = 5
_STALLED_MS: Final = 30_000

Drained: TypeAlias = dict[Connection, tuple[int, int]]
"""Since when each connection has unsent bytes while half of the memory is full, in ms; what it had drained by then."""


async def run_sweeper(shell: Shell, every_seconds: float = _EVERY_SECONDS) -> None:
    """The sweeper's task; ends only by cancellation."""
    rounds_without_frames = 0
    frames = -1
    drained: Drained = {}
    while True:
        asleep_since = trio.current_time()
        await trio.sleep(every_seconds)
        late_ms = (trio.current_time() - asleep_since - every_seconds) * 1000
        if late_ms > SLOW_TURN_MS:
            shell.rate_limit.write("warning", "event-loop-delayed", {"late_ms": round(late_ms)})
        now_ms = shell.clock.now_ms()
        shell.jobs.check_deadlines(now_ms)
        for connection in list(shell.connections.values()):
            if connection.relief is not None:
                connection.detect_end()
            if shell.selector.has_queued(connection):  # the broker is late, not the client
                if connection.frame_since_ms:
                    connection.frame_since_ms = now_ms
                continue
            reason = overdue(connection, shell, now_ms)
            if reason is not None:
                _close(shell, connection, reason)
        drained = _make_room(shell, now_ms, drained) if _is_half_full(shell) else {}
        rounds_without_frames = rounds_without_frames + 1 if frames == shell.counters.frames else 0
        frames = shell.counters.frames
        if rounds_without_frames == _SPARES_IDLE_ROUNDS:
            shell.shared_buffer.drop_spares()


def overdue(connection: Connection, shell: Shell, now_ms: int) -> str | None:
    """The deadline that the connection has passed, or None."""
    limits = shell.limits
    if connection.closing:
        return None
    is_idle = now_ms - connection.last_active_ms > limits.idle_ms_max
    if connection.relief is not None:  # paused: only a client that leaves its replies unread is to blame
        return "idle" if is_idle and connection.unsent_bytes > limits.unsent_reply_bytes_max else None
    if not connection.has_sent:
        return "first-byte-deadline" if now_ms - connection.opened_ms > limits.first_byte_ms_max else None
    if connection.frame_since_ms and now_ms - connection.frame_since_ms > limits.frame_ms_max(
        connection.input.frame_bytes
    ):
        return "frame-deadline"
    # a partial frame has its own deadline, and its bytes may still be in the kernel (`low_water`)
    if not connection.frame_since_ms and is_idle:
        return "idle"
    return None


def _make_room(shell: Shell, now_ms: int, before: Drained) -> Drained:
    """If memory is full, close stalled connections, those with the most unsent bytes first, until half of it is free.

    A client that reads a packet now and then is stalled too, if it has been that slow since half of it was full.
    """
    behind = [connection for connection in shell.connections.values() if _unsent_in_memory(connection)]
    drained = {each: before.get(each, (now_ms, each.drained_bytes)) for each in behind}
    stalled = [
        each
        for each, (since_ms, bytes_then) in drained.items()
        if now_ms - each.last_active_ms > _STALLED_MS
        or now_ms - since_ms > shell.limits.frame_ms_max(each.drained_bytes - bytes_then)
    ]
    if shell.memory.is_full:
        for each in sorted(stalled, key=_unsent_in_memory, reverse=True):
            if _is_half_full(shell):
                _close(shell, each, "answers-not-read")
    return drained


def _is_half_full(shell: Shell) -> bool:
    return shell.memory.held_bytes > shell.memory.bytes_max // 2


def _unsent_in_memory(connection: Connection) -> int:
    return connection.unsent_bytes - connection.slice_bytes


def _close(shell: Shell, connection: Connection, reason: str) -> None:
    if reason != "idle":
        shell.counters.bad(reason)
        shell.rate_limit.write("warning", "bad-request", {"peer": connection.peer, "kind": reason})
    connection.close(reason, now=True)
    connection.flush()
