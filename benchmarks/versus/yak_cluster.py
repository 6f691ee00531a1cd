"""YAK as brokers and their Redis, all fresh, as `yak up` starts them."""

from pathlib import Path

from yak.local.bench.fleet import LocalFleet
from yak.local.cluster import UpSettings


class YakCluster(LocalFleet):
    name = "yak"

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))

    def prepare(self) -> None:
        """Nothing: YAK formats its data directories when it starts."""

    def start(self) -> None:
        """Start Redis and the brokers. Raises YakError."""
        self.up(UpSettings(port=0, brokers=3, leaders=3))

    def stop(self) -> None:
        self.discard()
