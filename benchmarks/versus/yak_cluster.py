"""YAK as three brokers and their Redis, all fresh, as `yak up` starts them."""

from pathlib import Path

from yak.local.bench.fleet import LocalFleet


class YakCluster(LocalFleet):
    """Three brokers, any of which may lead."""

    name = "yak"

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))

    def prepare(self) -> None:
        """Nothing: YAK formats its data directories when it starts."""

    def stop(self) -> None:
        """End every process that was started, and remove the data."""
        self.discard()
