"""`yak demo restart`: the only broker is killed under load, and started again on its data."""

import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

from yak.local import processes
from yak.local.cluster import UpSettings
from yak.local.demo.scenario import Result
from yak.local.demo.topics import NOT_POWER_LOSS, TopicsScenario

NODE: Final = 1


class RestartScenario(TopicsScenario):
    """Start, load, kill, restart, finish, read back."""

    SUMMARY = "Real data, real clients, one kill -9, and every acknowledged message counted."
    TIMES = ("restart_ms", "kill_to_first_ack_ms", "read_back_ms")
    ERROR = "demo-client"
    killed_at = 0.0

    def steps(self) -> Sequence[Callable[[], None]]:
        """The steps."""
        return (self._start_broker, self._send, self._kill, self._restart, self._finish, self._compare)

    def _start_broker(self) -> None:
        status = self.start(UpSettings(port=0))
        self.say(f"metadata in {status.redis_url}")
        self.say_ready(status)

    def _send(self) -> None:
        self.step("Send real data from clients that know nothing of each other")
        self.make_clients()
        for load in self.loads:
            self.create_topic(load.topic, min_isr=1, partitions=1, replication_factor=1)
        self.say_clients()
        self.start_load(*self.loads)
        self.go_on_to(0.4)

    def _kill(self) -> None:
        if not self.settings.kill:
            self.step("Kill the broker: left out (--no-kill)")
            return
        stored = self.wait_until_all_store()
        self.killed_pid = self.cluster.status().brokers[0].pid
        self.step(f"Kill the broker in the middle of it: kill -{int(signal.SIGKILL)} {self.killed_pid}")
        self.killed_at = time.monotonic()
        assert not processes.is_running(self.cluster.kill(NODE))
        self.say(f"gone, with {stored} messages stored and every client still sending")

    def _restart(self) -> None:
        if not self.settings.kill:
            self.step("Start it again: left out")
            return
        self.step("Start it again on the same data")
        began = time.monotonic()
        again = self.cluster.restart(NODE)
        took_ms = self.took("restart_ms", began)
        self.say(f"ready in {took_ms:.0f} ms (pid {again.pid}); the clients go on by themselves")

    def _finish(self) -> None:
        self.step("Let the clients finish")
        # Even on a slow machine, part of the load comes after the restart.
        self.go_on_to(1.0, at_least=self.settings.load_seconds * 0.3)
        self.finish_clients()
        self.say(f"{self.recorder.acknowledged} messages acknowledged by the broker")
        first = self.recorder.first_ack_after(self.killed_at) if self.killed_at else None
        if first is not None:
            took_ms = self.took("kill_to_first_ack_ms", self.killed_at, first)
            self.say(f"from the kill to the first acknowledgement after it: {took_ms:.0f} ms")

    def result(self) -> Result:
        """The result."""
        notes = []
        restart_ms, first_ms = self.times["restart_ms"], self.times["kill_to_first_ack_ms"]
        if restart_ms is not None:
            first = "" if first_ms is None else f"; from the kill to the next ack {first_ms:.0f} ms"
            notes = [f"restart after the kill {restart_ms:.0f} ms{first}", NOT_POWER_LOSS]
        commands = [
            ("yak up -d", "start a cluster that stays"),
            ('yak produce -m "hello"', "store a message"),
            ("yak consume --from-beginning --exit", "read it back"),
            ("yak demo restart --keep", "this again, and leave it running"),
        ]
        if self.settings.keep:
            commands = [
                (f"yak consume server_metrics --from-beginning --exit -b {self.bootstrap}", ""),
                (f"yak up --status --data-dir {self.where}", ""),
                (f"yak down --data-dir {self.where}", ""),
            ]
        return self.topics_result(notes, commands, {"killed_pid": self.killed_pid})
