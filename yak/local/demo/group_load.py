"""The producer of the groups demo: sends this machine's load to the partitions in turn."""

import zlib
from typing import Any, Final

from yak.local.demo.group_ledger import Place
from yak.local.demo.live_load import LiveLoad
from yak.local.demo.sources import host_name, server_samples

RECORDS_PER_SECOND: Final = 300


class GroupLoad(LiveLoad):
    """Sends samples and stores the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(bootstrap, "yak-demo-producer", RECORDS_PER_SECOND)
        self._topic = topic
        self._partitions = partitions
        self._acknowledged: dict[Place, int] = {}
        self._samples = server_samples(host_name())

    def acknowledged_count(self) -> int:
        """The number of acknowledged records so far."""
        return len(self._acknowledged)

    def finish(self, timeout_seconds: float) -> dict[Place, int]:
        """Stop sending, wait for records in flight, and return each acknowledged record's position and checksum."""
        self.stop(timeout_seconds)
        return dict(self._acknowledged)

    def send(self, number: int) -> None:
        """Send one sample to the next partition."""
        value = next(self._samples)
        checksum = zlib.crc32(value)

        def delivered(error: object, message: Any) -> None:
            if error is None:
                self._acknowledged[Place(int(message.partition()), int(message.offset()))] = checksum

        self.producer.produce(self._topic, value=value, partition=number % self._partitions, on_delivery=delivered)
