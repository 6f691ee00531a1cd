"""What the demos `restart` and `failover` share: clients with a topic each, which are read back to the end and counted."""

import os
import time
from typing import Any, Final

from yak.client.admin import LATEST, Admin
from yak.errors import NothingInTime
from yak.ids import TopicPartition
from yak.local.chaos.readers import read_everything
from yak.local.demo.delivery import Delivery, deliveries
from yak.local.demo.load import CsvFile, Processes, ServerMetrics, write_file_list
from yak.local.demo.scenario import FINISH_SECONDS, Reporter, Result, Row, Scenario, Settings

CSV_ROWS_PER_SECOND: Final = 500
BEGIN_SECONDS: Final = 20.0
READ_SECONDS: Final = 30.0
NOT_POWER_LOSS: Final = "kill -9 is not power loss: against that, set flush.messages=1 on a topic"


class TopicsScenario(Scenario):
    """Three clients send to a topic of one partition each; at the end every record is read back."""

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        super().__init__(settings, reporter)
        self.loads: list[ServerMetrics | CsvFile | Processes] = []
        self.delivered: tuple[Delivery, ...] = ()
        self.killed_pid: int | None = None

    def make_clients(self) -> None:
        """Prepare the clients: confluent-kafka, `yak produce`, and kafka-python if it is installed."""
        path, seconds = os.path.join(self.work, "files.csv"), self.settings.load_seconds
        rows = write_file_list(path, round(CSV_ROWS_PER_SECOND * seconds))
        self.loads = [ServerMetrics(self.recorder, self.bootstrap)]
        self.loads.append(CsvFile(self.recorder, self.bootstrap, path, rows, seconds))
        if Processes.is_installed():
            self.loads.append(Processes(self.recorder, self.bootstrap))

    def say_clients(self) -> None:
        """Report the data and the clients."""
        for load in self.loads:
            self.say(f"{load.topic:<15} {load.what}")
            self.say(f"{'':<15} by {load.name}")

    def wait_until_all_store(self) -> int:
        """Wait until each client has a stored record, so that the kill hits all of them; return the number of records.

        Raises NothingInTime when a client stores nothing.
        """
        admin = Admin(self.bootstrap)
        partitions = {TopicPartition(load.topic, 0): LATEST for load in self.loads}
        deadline = time.monotonic() + BEGIN_SECONDS
        while True:
            ends = {partition.topic: found.offset for partition, found in admin.offsets(partitions).items()}
            silent = [topic for topic, end in ends.items() if end == 0]
            if not silent:
                return sum(ends.values())
            if time.monotonic() > deadline:
                raise NothingInTime(
                    "demo-client",
                    f"nothing was stored in {', '.join(silent)} in {BEGIN_SECONDS:.0f} s",
                    why="the client that sends there did not begin",
                )
            time.sleep(0.05)

    def finish_clients(self) -> None:
        """Let the clients end."""
        for load in self.loads:
            load.finish(FINISH_SECONDS)

    def _compare(self) -> None:
        self.step("Read every message back and compare")
        self.finish_clients()
        began = time.monotonic()
        partitions = [TopicPartition(load.topic, 0) for load in self.loads]
        left = read_everything(self.bootstrap, partitions, self.recorder, READ_SECONDS)
        if left:
            raise NothingInTime(
                "demo-read-back",
                f"the end of {len(left)} partitions was not reached in {READ_SECONDS:.0f} s",
                why=", ".join(sorted(left)),
            )
        took_ms = self.took("read_back_ms", began)
        found = deliveries(self.recorder.history())
        self.delivered = tuple(found.get(f"{load.topic}-0", Delivery(load.topic)) for load in self.loads)
        self.say(f"{sum(each.read for each in self.delivered)} messages read in {took_ms:.0f} ms")

    def topics_result(self, notes: list[str], next_commands: list[tuple[str, str]], fields: dict[str, Any]) -> Result:
        """The result with the counts of each topic."""
        total = Delivery.total(self.delivered)
        wrong = total.out_of_order + total.moved
        counts = f"acked {total.acknowledged}, read {total.read}, lost {total.lost}, duplicated {total.duplicated}"
        names = {load.topic: load.name for load in self.loads}
        topics = [
            {"topic": each.topic, **each.counts(), "client": names[each.topic], "ok": each.holds}
            for each in self.delivered
        ]
        rows: list[Row] = []
        for each in self.delivered:
            shown = {name: getattr(each, name) for name in ("topic", "acknowledged", "read", "lost", "duplicated")}
            rows.append({**shown, "out_of_order": each.out_of_order + each.moved})
        return Result(
            bool(self.delivered) and all(each.holds for each in self.delivered),
            "every acknowledged message is there",
            rows,
            [f"{counts}, out of order {wrong}", self.start_note(), *notes],
            next_commands,
            {**total.counts(), **fields, "topics": topics, **self.common_fields()},
        )
