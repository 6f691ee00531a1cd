"""What the replication benchmark asks for, and when it begins."""

from yak.local.bench.replication import BulkLoad, shapes, wait_quiet


class Busy:
    """A cluster that uses so many CPU seconds between two looks, the last for good."""

    bootstrap = "x:1"

    def __init__(self, *uses: float) -> None:
        self._uses = list(uses)
        self._total = 0.0
        self._looks = 0

    def cpu_seconds(self) -> dict[str, float]:
        """Two looks for each use."""
        if self._looks % 2:
            self._total += self._uses.pop(0) if len(self._uses) > 1 else self._uses[0]
        self._looks += 1
        return {"node 1": self._total}


def test_replication_benchmark_begins_when_newly_started_brokers_are_quiet() -> None:
    cluster = Busy(1.0, 1.0, 0.0)
    assert wait_quiet(cluster, patience_s=5.0, poll_s=0.001)
    assert cluster._looks == 6


def test_a_cluster_that_is_never_quiet_is_measured_all_the_same() -> None:
    assert not wait_quiet(Busy(1.0), patience_s=0.02, poll_s=0.001)


def test_shapes_are_named_by_size_partitions_and_clients() -> None:
    assert BulkLoad(100, 1, 5).name == "100 B, 1 partition, 1 client"
    assert BulkLoad(1000, 16, 5, 4).name == "1 KB, 16 partitions, 4 clients"
    found = shapes(0.5, clients=(1, 4))
    assert len({shape.name for shape in found}) == len(found) == 8
    assert {shape.records * shape.size_bytes for shape in found} == {200_000_000, 250_000_000}
