"""`yak up` in the foreground: show what the children print, notice when one dies, and end when asked to.

The children need no supervisor; this only watches them. So a cluster whose `yak up` was killed goes on, and another
`yak up` finds it.
"""

import os
import threading
from collections.abc import Callable, Mapping

from yak.local.cluster import LocalCluster
from yak.local.status import BrokerCondition, ClusterStatus

_LOOK_EVERY_SECONDS = 0.1
_STATUS_EVERY_LOOKS = 5
_READ_AT_MOST_BYTES = 256 * 1024


class LogFollower:
    """Gives the lines added to several log files since the last look."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = dict(paths)
        self._positions = {name: _size(path) for name, path in paths.items()}
        self._halves = dict.fromkeys(paths, b"")

    def follow_also(self, paths: Mapping[str, str]) -> None:
        """Read those that are not read yet from their start: of brokers that were added since."""
        for name, path in paths.items():
            if name not in self._paths:
                self._paths[name], self._positions[name], self._halves[name] = path, 0, b""

    def new_lines(self) -> list[tuple[str, str]]:
        """(name, line) for each whole line that is new; a file that was put aside is read from its start."""
        found: list[tuple[str, str]] = []
        for name, path in self._paths.items():
            size = _size(path)
            if size < self._positions[name]:
                self._positions[name], self._halves[name] = 0, b""
            if size == self._positions[name]:
                continue
            with open(path, "rb") as file:
                file.seek(self._positions[name])
                data = file.read(_READ_AT_MOST_BYTES)
            self._positions[name] += len(data)
            *lines, self._halves[name] = (self._halves[name] + data).split(b"\n")
            found += [(name, line.decode("utf-8", "replace")) for line in lines]
        return found


def supervise(
    cluster: LocalCluster,
    stop_asked: threading.Event,
    *,
    on_line: Callable[[str, str], None],
    on_change: Callable[[int, BrokerCondition], None],
    on_redis_gone: Callable[[], None],
) -> bool:
    """Watch until `stop_asked` is set (True), or until somebody else has stopped every broker (False)."""
    follower = LogFollower(cluster.log_paths())
    seen = _conditions(cluster.status())
    redis_was_up = True
    looks = 0
    while not stop_asked.wait(_LOOK_EVERY_SECONDS):
        for name, line in follower.new_lines():
            on_line(name, line)
        looks += 1
        if looks % _STATUS_EVERY_LOOKS:
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


def _conditions(status: ClusterStatus) -> dict[int, BrokerCondition]:
    return {broker.node_id: broker.state for broker in status.brokers}


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
