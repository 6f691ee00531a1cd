"""The brokers' log output since a test began, for the report of a failed test."""

import os
from collections.abc import Mapping
from typing import Final

_READ_AT_MOST_BYTES: Final = 256 * 1024


class BrokerLogs:
    """The log files of a cluster by node, and the length of each at the last `mark`."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = dict(paths)
        self._marks = dict.fromkeys(paths, 0)

    def mark(self) -> None:
        """Exclude the present content from later reads."""
        self._marks = {node_id: _size(path) for node_id, path in self._paths.items()}

    def read(self, node_id: int) -> str:
        """A broker's output since the mark, at most the last 256 KiB."""
        path = self._paths[node_id]
        size = _size(path)
        begin = self._marks[node_id] if self._marks[node_id] <= size else 0
        try:
            with open(path, "rb") as log:
                log.seek(max(begin, size - _READ_AT_MOST_BYTES))
                return log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def tails(self, lines_max: int) -> dict[int, str]:
        """The last lines of each broker's output since the mark."""
        return {node_id: last_lines(self.read(node_id), lines_max) for node_id in self._paths}


def last_lines(text: str, lines_max: int) -> str:
    """The last lines of a text, after a note of how many were left out."""
    lines = text.splitlines()
    left_out = len(lines) - lines_max
    note = [f"({left_out} lines before)"] if left_out > 0 else []
    return "\n".join([*note, *lines[max(left_out, 0) :]])


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
