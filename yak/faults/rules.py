"""The fault rules of one broker: which of them act on a request. Each rule counts the requests that match it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from yak.errors import UsageError
from yak.faults.rule import OF_REPLICAS, FaultKind, FaultRule

RULES_MAX: Final = 1_000
"""Each request is compared with every rule."""
Named: TypeAlias = Callable[[], Iterable[tuple[str | None, int | None]]]
"""Gives the topics and partitions that a request names; partition None: the topic as a whole, topic None: any topic."""


@dataclass(slots=True)
class CountedRule:
    """A rule, the requests that matched it, and those of them on which it acted."""

    rule: FaultRule
    calls: int = 0
    hits: int = 0

    def as_json(self) -> dict[str, Any]:
        """The rule with its counts, which rules of replicas do not have."""
        counts = {} if self.rule.fault in OF_REPLICAS else {"calls": self.calls, "hits": self.hits}
        return {**self.rule.as_json(), **counts}


class FaultRules:
    """All rules, in the order in which they were added. False while there are none."""

    def __init__(self) -> None:
        self._counted: dict[str, CountedRule] = {}
        self._lagging: list[FaultRule] = []
        self._frozen: list[FaultRule] = []

    def __len__(self) -> int:
        return len(self._counted)

    def add(self, rule: FaultRule) -> None:
        """Add a rule. Raises UsageError (`bad-fault`) for an id that is taken, or beyond `RULES_MAX`."""
        if rule.rule_id in self._counted:
            raise UsageError("bad-fault", f"there is a fault {rule.rule_id}", why="the id of a fault is unique")
        if len(self._counted) >= RULES_MAX:
            raise UsageError("bad-fault", f"there are {RULES_MAX} faults", why="that is the limit of a broker")
        self._counted[rule.rule_id] = CountedRule(rule)
        self._sort()

    def remove(self, rule_id: str | None) -> list[FaultRule]:
        """Remove one rule, or all of them; returns the removed ones, none if there is no such rule."""
        gone = [each.rule for each in self._counted.values() if rule_id in (None, each.rule.rule_id)]
        for rule in gone:
            del self._counted[rule.rule_id]
        self._sort()
        return gone

    def _sort(self) -> None:
        rules = [each.rule for each in self._counted.values()]
        self._lagging = [rule for rule in rules if rule.fault is FaultKind.LAG_REPLICA]
        self._frozen = [rule for rule in rules if rule.fault is FaultKind.FREEZE_ISR]

    def as_json(self) -> list[dict[str, Any]]:
        """All rules with their counts."""
        return [each.as_json() for each in self._counted.values()]

    def fired(self, api_key: int, client_id: str | None, named: Named) -> list[FaultRule]:
        """The rules that act on a request, oldest first. Every rule that the request matches counts it."""
        found = []
        for each in self._counted.values():
            rule = each.rule
            if (
                rule.fault in OF_REPLICAS
                or rule.api_key not in (None, api_key)
                or not rule.is_of_client(client_id)
                or not (
                    rule.topic is None or any(topic is None or rule.names(topic, index) for topic, index in named())
                )
            ):
                continue
            each.calls += 1
            if rule.fires_on(each.calls):
                each.hits += 1
                found.append(rule)
        return found

    def stops_fetches(self, topic: str, partition: int, node_id: int) -> bool:
        """Whether this broker's replica of a partition is not to fetch."""
        return any(not rule.delay_ms for rule in self._lags(topic, partition, node_id))

    def lag_ms(self, topic: str, partition: int, node_id: int) -> int:
        """How long this broker's replica of a partition is to wait after records, before it fetches more."""
        return max((rule.delay_ms for rule in self._lags(topic, partition, node_id)), default=0)

    def _lags(self, topic: str, partition: int, node_id: int) -> list[FaultRule]:
        return [rule for rule in self._lagging if rule.broker == node_id and rule.hits(topic, partition)]

    def freezes(self, topic: str, partition: int) -> bool:
        """Whether this broker, as leader, is to propose no change of a partition's ISR."""
        return any(rule.hits(topic, partition) for rule in self._frozen)
