"""Sizes of replicas on disk by a raw request (DescribeLogDirs, key 35), for which librdkafka has no call.

It uses version 1, the last without tagged fields; Kafka 1.0 to 4 support it.
"""

import struct
from collections.abc import Iterator

from yak.client.metadata import ClusterMetadata
from yak.client.raw_connection import RawConnection

API_KEY = 35
VERSION = 1
ALL_TOPICS = struct.pack(">i", -1)


def replica_sizes(metadata: ClusterMetadata, *, timeout_s: float) -> dict[int, dict[tuple[str, int], int]]:
    """The bytes of each replica, by broker; empty for a broker that does not answer."""
    sizes: dict[int, dict[tuple[str, int], int]] = {}
    for node_id, broker in metadata.brokers.items():
        try:
            answer = _ask(broker.address, timeout_s)
            sizes[node_id] = dict(parse_answer(answer))
        except (OSError, struct.error, UnicodeDecodeError):
            sizes[node_id] = {}
    return sizes


def _ask(address: str, timeout_s: float) -> bytes:
    with RawConnection(address, timeout_s=timeout_s) as connection:
        return connection.ask(API_KEY, VERSION, ALL_TOPICS, is_flexible=False)


class _Reader:
    """Decodes Kafka's non-flexible primitives in sequence."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        """One integer of a struct format."""
        (value,) = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return int(value)

    def text(self) -> str:
        """A string with its 16-bit length."""
        length = self.number("h")
        if length < 0:
            return ""
        text = self._data[self._at : self._at + length].decode()
        self._at += length
        return text


def parse_answer(data: bytes) -> Iterator[tuple[tuple[str, int], int]]:
    """(topic, partition) and size of each replica. Raises struct.error for an invalid response."""
    reader = _Reader(data)
    reader.number("i")  # throttle time
    for _ in range(reader.number("i")):
        error = reader.number("h")
        reader.text()
        for _ in range(reader.number("i")):
            topic = reader.text()
            for _ in range(reader.number("i")):
                partition, size = reader.number("i"), reader.number("q")
                reader.number("q")  # offset lag
                is_future = reader.number("b")
                if not error and not is_future:
                    yield (topic, partition), size
