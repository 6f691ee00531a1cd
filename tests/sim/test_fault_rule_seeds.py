"""Fault rules on brokers under seeded faults: clients meet errors, delays and lagging replicas, and nothing is lost."""

from collections import Counter

import pytest

from yak.broker.broker import Broker
from yak.sim.cluster_run import ClusterRun
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec

SEEDS_PER_TEST = 3
FIRST = (1, 4, *(pytest.param(first, marks=pytest.mark.thorough) for first in (7, 10)))
"""Each test has all kinds of rules; `make test-all` runs twice as many."""
RULES = 25
LAST_US = 3_000_000
"""After the clients' start."""
LONGEST_US = 2_000_000
APIS = ("Produce", "Fetch", "Metadata", "InitProducerId", "FindCoordinator", "Heartbeat")
ERRORS = ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR")


def drawn(rng: SeededRandom, topics: tuple[str, ...]) -> dict[str, object]:
    """A rule that some requests or replicas of the run match."""
    fault = rng.choice(("inject_error", "disconnect_on", "delay_on", "blackhole_client", "lag_replica", "freeze_isr"))
    rule: dict[str, object] = {"fault": fault}
    if fault == "lag_replica":
        return rule | {"topic": rng.choice(topics), "partition": 0, "delay_ms": rng.choice((None, 1, 500))}
    if fault == "freeze_isr":
        return rule | {"topic": rng.choice(topics)}
    rule |= {"times": rng.choice((1, 3, None)), "on_call": rng.choice((1, 1, 4))}
    if fault == "blackhole_client":
        return rule | {"client_id": "*", "times": 3}
    api = rng.choice(APIS)
    rule |= {"api": api}
    if fault == "delay_on":
        return rule | {"delay_ms": rng.between(1, 2_000)}
    if fault == "inject_error":
        rule |= {"error": "COORDINATOR_NOT_AVAILABLE" if api in APIS[3:] else rng.choice(ERRORS)}
    if api in ("Produce", "Fetch") and rng.chance(50):
        rule |= {"topic": rng.choice(topics), "partition": rng.choice((None, 0))}
    return rule | {"after": rng.chance(50)}


class RuledRun(ClusterRun):
    """A run in which rules come and go, until everything heals."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._rules_rng = SeededRandom(f"rules {spec.seed}")
        self.seen: Counter[str] = Counter()
        self._is_recovering = False

    def _start_clients(self) -> None:
        super()._start_clients()
        for number in range(RULES):
            self.world.after(self._rules_rng.between(1, LAST_US), lambda number=number: self._add(str(number)))

    def _add(self, rule_id: str) -> None:
        node = self._rules_rng.choice(self.cluster.nodes)
        broker = node.broker
        if broker is None or self._is_recovering:
            return
        rule = drawn(self._rules_rng, tuple(self.plans))
        if rule["fault"] == "lag_replica":
            rule["broker"] = node.node_id
        broker.faults.add({"id": rule_id, **rule})
        self.seen[str(rule["fault"])] += 1
        self.world.after(self._rules_rng.between(1, LONGEST_US), lambda: self._clear(broker, rule_id))

    def _clear(self, broker: Broker, rule_id: str | None = None) -> None:
        counted = {each["id"]: each for each in broker.context.faults.as_json()}
        for each in counted.values() if rule_id is None else [counted.get(rule_id, {})]:
            self.seen["hits"] += each.get("hits", 0)
        broker.faults.clear(rule_id)

    def _end_faults(self) -> None:
        self._is_recovering = True
        for node in self.cluster.nodes:
            if node.broker is not None:
                self._clear(node.broker)
        super()._end_faults()


@pytest.mark.parametrize("first", FIRST)
def test_acknowledged_records_survive_fault_rules_and_all_clients_are_served_later(first):
    seen: Counter[str] = Counter()
    for seed in range(first, first + SEEDS_PER_TEST):
        run = RuledRun(Spec(seed, 3))
        run.go()
        seen += run.seen
    assert seen["hits"] > 10, seen
    assert len(seen) == 7, seen
