"""A load, and a reader beside it, in a process of their own: `python load_process.py BOOTSTRAP TOPIC PARTITIONS`.

stdin has a command a line, and stdout answers each with a line: `more N` waits until N more records are acknowledged,
`end` stops the load, `check` reads everything and prints what was found as JSON, or `error: …`.
"""

import json
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

sys.path.append(str(Path(__file__).parents[1]))
from support.loads import SteadyLoad, check_complete

LONGEST_S = 90


class Reader:
    """Reads all partitions from their start while the load writes: each record once, in the order of its partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.last = dict.fromkeys(range(partitions), -1)
        self.count = 0
        self.wrong: list[str] = []
        self.stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.stopping.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is not None:
                    if message.error().code() == -144:  # _AUTO_OFFSET_RESET: what was read is gone
                        self.wrong.append(message.error().str())
                    continue
                number, partition = int(message.value().rpartition(b":")[2]), message.partition()
                if number <= self.last[partition]:
                    self.wrong.append(f"partition {partition}: {number} after {self.last[partition]}")
                self.last[partition], self.count = number, self.count + 1

    def reach(self, count: int) -> None:
        """Wait until so many records are read, and stop."""
        deadline = time.monotonic() + LONGEST_S
        while self.count < count and not self.wrong:
            assert time.monotonic() < deadline, f"{self.count} of {count} records read"
            time.sleep(0.05)
        self.stopping.set()
        self._thread.join()
        self._consumer.close()
        assert self.wrong == []


def main(bootstrap: str, topic: str, partitions: int) -> None:
    forever = {"message.timeout.ms": 0, "acks": "all"}
    reader = Reader(bootstrap, topic, partitions)
    with SteadyLoad(bootstrap, topic, partitions=partitions, pause_seconds=0.01, **forever) as load:
        for line in sys.stdin:
            word, *rest = line.split()
            try:
                if word == "more":
                    load.wait_for(int(rest[0]), LONGEST_S)
                elif word == "end":
                    load.stop()
                    reader.reach(load.total)
                else:
                    check_complete(load, bootstrap, topic)
            except AssertionError as error:
                print(f"error: {error}".replace("\n", " "), flush=True)
                continue
            print(json.dumps({"acknowledged": load.total, "slowest_s": round(load.slowest_ack_seconds, 1)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
