"""Local control of processes that are not there."""

from yak.errors import YakError
from yak.local.status import BrokerStatus, ClusterStatus


class FakeControl:
    """Three processes that can be broken."""

    def __init__(self) -> None:
        self.data_dir = "/data"
        self.states = {1: "running", 2: "running", 3: "running"}
        self.redis: bool = True
        self.done: list[str] = []
        self.refuse: YakError | None = None

    def status(self) -> ClusterStatus:
        brokers = tuple(
            BrokerStatus(node, "leader", None if state == "dead" else 100 + node, f"127.0.0.1:{9091 + node}", state)  # type: ignore[arg-type]
            for node, state in self.states.items()
        )
        return ClusterStatus("id", self.data_dir, "redis://x", self.redis, "", brokers)

    def redis_pid(self) -> int | None:
        return 99 if self.redis else None

    def command(self, text: str) -> str:
        return f"yak {text}"

    def _do(self, what: str, node: int, state: str) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.done.append(f"{what} {node}")
        self.states[node] = state

    def kill(self, node: int) -> None:
        self._do("kill", node, "dead")

    def pause(self, node: int) -> None:
        self._do("pause", node, "paused")

    def resume(self, node: int) -> None:
        self._do("resume", node, "running")

    def restart(self, node: int) -> None:
        self._do("restart", node, "running")

    def add(self) -> int:
        self._do("add", 4, "running")
        return 4

    def stop_redis(self) -> None:
        self.redis = False
        self.done.append("stop redis")

    def start_redis(self) -> None:
        self.redis = True
        self.done.append("start redis")
