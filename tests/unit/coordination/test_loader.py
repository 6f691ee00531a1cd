"""The loader of a coordinator, over a log on a simulated disk."""

from types import SimpleNamespace
from typing import Any

from tests.unit.contexts import StubContext
from tests.unit.storage.conftest import Bench
from yak.coordination import loader
from yak.coordination.loader import CoordinatorLoader
from yak.core.timers import Timers
from yak.transactions.shard import TransactionShard


def test_load_goes_on_behind_records_that_retention_removes_meanwhile(monkeypatch):
    monkeypatch.setattr(loader, "CHUNK_BYTES", 1)
    bench: Any = Bench(segment_bytes=300)
    for _ in range(10):
        bench.append(keys=[b"k"])
    partition = SimpleNamespace(log=bench.log, topic_partition="p")
    found: list[object] = []
    partitions = SimpleNamespace(damaged_replicas=SimpleNamespace(found=lambda *arguments: found.append(arguments)))
    plans: list[Any] = []
    context: Any = StubContext(
        clock=SimpleNamespace(now_ms=0),
        timers=Timers(),
        jobs=SimpleNamespace(run=lambda _kind, plan, then: plans.append((plan, then))),
        notice=lambda *_arguments, **_fields: None,
    )
    done: list[int] = []
    loading: Any = CoordinatorLoader(context, partitions, partition, TransactionShard(), done.append)
    loading.resume()
    bench.log.remove_segments(bench.log.segments[:2])
    while plans and not found:
        plan, then = plans.pop()
        then(plan.run(bench.disk), None)
        context.clock.now_ms += loader.RETRY_MS
        context.timers.run_due(context.clock.now_ms)
    assert (found, len(done)) == ([], 1)
