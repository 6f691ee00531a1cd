"""A connection to a simulated broker without a network: its requests and answers are frames, and arrive at once."""

from typing import Any

from tests.rig import Rig


class RawConnection:
    """What the broker answered, and whether it closed the connection."""

    def __init__(self, rig: Rig) -> None:
        self.answers: list[bytes] = []
        self.is_closed = False
        self._node: Any = rig.node
        self._connection_id = self._node.accept(self)

    def send(self, *frames: bytes | bytearray) -> None:
        self._node.receive(self._connection_id, list(frames))

    def close(self) -> None:
        self._node.disconnect(self._connection_id)

    def reply(self, frame: bytes) -> None:
        """The broker answers."""
        self.answers.append(frame)

    def node_closes(self) -> None:
        """The broker closes the connection."""
        self.is_closed = True
