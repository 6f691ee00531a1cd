"""`yak up` in the foreground: print the children's output, report a dead child, and stop on request.

The children need no supervisor; this only watches them. A cluster whose `yak up` was killed therefore goes on, and
another `yak up` finds it. A broker that halted (`broker-halted` in its log, exit code 6) is restarted, as by a service
manager (systemd's `Restart=on-failure`). A killed broker stays dead, since users kill brokers to see a failover.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial

from yak.errors import YakError
from yak.local import log_file
from yak.local.cluster import LocalCluster
from yak.local.signal_event import SignalEvent
from yak.local.state import BUSY
from yak.local.status import BrokerCondition, BrokerStatus, ClusterStatus

_POLL_SECONDS = 0.1
_STATUS_EVERY_POLLS = 5
_READ_AT_MOST_BYTES = 256 * 1024
_HALTED = "broker-halted"
RESTART_SECONDS, RESTART_SECONDS_MAX = 1.0, 60.0
"""Delay before a halted broker is restarted; it doubles each time, so that a broker that halts at once costs little."""
HEALTHY_SECONDS = 60.0
"""A broker that ran this long since its restart has the shortest delay again."""


class Restarts:
    """The halted brokers, and when each is restarted.

    `pid_of` gives the process of a name, None if it has ended; `now` gives seconds on any clock.
    """

    def __init__(self, pid_of: Callable[[str], int | None], now: Callable[[], float] = time.monotonic) -> None:
        self._pid_of = pid_of
        self._now = now
        self._halted: dict[str, int | None] = {}
        """The process of each that halted last; None: it had ended when its line was read."""
        self._due: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def note_line(self, name: str, line: str) -> None:
        """Schedule a restart if this line of a child's log, text or JSON, is the halt event."""
        if log_file.has_event(line, _HALTED):
            if self._now() - self._started.get(name, self._now()) >= HEALTHY_SECONDS:
                self._pauses.pop(name, None)
            self._halted[name] = self._pid_of(name)
            pause = self._pauses.get(name, RESTART_SECONDS)
            self._pauses[name] = min(2 * pause, RESTART_SECONDS_MAX)
            self._due[name] = self._now() + pause

    def is_ending(self, name: str, pid: int | None) -> bool:
        """Whether this process of the name is the one that has halted, and has not ended yet."""
        return pid is not None and pid == self._halted.get(name)

    def postpone(self, name: str) -> None:
        """Schedule the restart of a broker that could not be tried now."""
        self._due[name] = self._now() + RESTART_SECONDS

    def take_due(self) -> list[str]:
        """Remove and return the names of the brokers that are due for a restart."""
        due = [name for name, at in self._due.items() if at <= self._now()]
        for name in due:
            del self._due[name]
            self._started[name] = self._now()
        return due


class LogFollower:
    """Reads the lines added to several log files since the last call, or since it was made."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = dict(paths)
        self._positions = {name: log_file.size(path) for name, path in paths.items()}
        self._halves = dict.fromkeys(paths, b"")

    def follow_also(self, paths: Mapping[str, str]) -> None:
        """Also follow these files, from their start: the logs of brokers added since."""
        for name, path in paths.items():
            if name not in self._paths:
                self._paths[name], self._positions[name], self._halves[name] = path, 0, b""

    def new_lines(self) -> list[tuple[str, str]]:
        """(name, line) for each complete new line; a rotated file is read from its start."""
        found: list[tuple[str, str]] = []
        for name, path in self._paths.items():
            size = log_file.size(path)
            if size < self._positions[name]:
                self._positions[name], self._halves[name] = 0, b""
            if size == self._positions[name]:
                continue
            try:
                with open(path, "rb") as file:
                    file.seek(self._positions[name])
                    data = file.read(_READ_AT_MOST_BYTES)
            except FileNotFoundError:  # a start has just put it aside
                continue
            self._positions[name] += len(data)
            *lines, self._halves[name] = (self._halves[name] + data).split(b"\n")
            found += [(name, line.decode("utf-8", "replace")) for line in lines]
        return found


def supervise(
    cluster: LocalCluster,
    follower: LogFollower,
    stop_requested: SignalEvent,
    *,
    on_line: Callable[[str, str], None],
    on_change: Callable[[int, BrokerCondition], None],
    on_redis_gone: Callable[[], None],
    on_restart: Callable[[int, YakError | None], None],
) -> bool:
    """Watch until `stop_requested` is set (True), or until every broker was stopped from elsewhere (False).

    `follower` was made before `yak up` started the brokers: a halt since then counts, though lines are printed only from
    now on. `on_restart` gets each halted broker that was restarted, and the error if the start failed.
    """
    restarts = Restarts(partial(_pid_of, cluster))
    follower.follow_also(cluster.log_paths())
    for name, line in follower.new_lines():
        restarts.note_line(name, line)
    # a broker that has ended since `yak up` found it ready is news
    seen = _conditions(cluster.status())
    seen |= {node_id: "running" for node_id, condition in seen.items() if condition == "dead"}
    redis_was_up = True
    polls = 0
    while not stop_requested.wait(_POLL_SECONDS):
        for name, line in follower.new_lines():
            on_line(name, line)
            restarts.note_line(name, line)
        _start_again(cluster, restarts, on_restart)
        polls += 1
        if polls % _STATUS_EVERY_POLLS:
            continue
        follower.follow_also(cluster.log_paths())
        status = cluster.status()
        if all(broker.state == "stopped" for broker in status.brokers):
            return False
        for node_id, condition in _conditions(status).items():
            if seen.get(node_id) != condition:
                on_change(node_id, condition)
        seen = _conditions(status)
        redis_up = status.redis_running is not False
        if redis_was_up and not redis_up:
            on_redis_gone()
        redis_was_up = redis_up
    for name, line in follower.new_lines():
        on_line(name, line)
    return True


def _start_again(cluster: LocalCluster, restarts: Restarts, on_restart: Callable[[int, YakError | None], None]) -> None:
    names = restarts.take_due()
    if not names:
        return
    brokers = _brokers(cluster)
    for name in names:
        broker = brokers.get(name)
        if broker is None or broker.state != "dead":
            if broker is not None and restarts.is_ending(name, broker.pid):
                restarts.postpone(name)
            continue
        node_id = broker.node_id
        try:
            cluster.restart(node_id)
        except OSError as error:  # such as a full disk: the other brokers go on
            on_restart(node_id, YakError("system", f"{error.filename}: {error.strerror}"))
        except YakError as error:
            if error.code == BUSY:  # such as a restart of another broker
                restarts.postpone(name)
            else:
                on_restart(node_id, error)
        else:
            on_restart(node_id, None)


def _brokers(cluster: LocalCluster) -> dict[str, BrokerStatus]:
    """By the names of their logs."""
    return {f"node-{broker.node_id}": broker for broker in cluster.status().brokers}


def _pid_of(cluster: LocalCluster, name: str) -> int | None:
    broker = _brokers(cluster).get(name)
    return None if broker is None else broker.pid


def _conditions(status: ClusterStatus) -> dict[int, BrokerCondition]:
    return {broker.node_id: broker.state for broker in status.brokers}
