"""An administrator of a simulated cluster: changes topics, configs and replica assignments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import Stoppable
from yak.sim.deliveries import Deliveries
from yak.sim.request_fields import Fields, topic_fields
from yak.sim.routing import Channel
from yak.sim.topic_plan import TopicPlan

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS, ALTER_PARTITION_REASSIGNMENTS = 43, 44, 45
UNREGISTER_BROKER = 64
TRIES = 4
RETRY_US = 100_000
WAIT = dt.timedelta(seconds=3)
MADE = (ErrorCode.none, ErrorCode.topic_already_exists)
CHURN = "t-churn"


class Admin(Stoppable):
    """Creates the topics of a run, and then changes them now and then until it is stopped."""

    def __init__(self, channel: Channel, deliveries: Deliveries, plans: dict[str, TopicPlan], brokers: int) -> None:
        self._channel = channel
        self._rng = channel.rng
        self._deliveries = deliveries
        self._plans = plans
        self._brokers = brokers
        self._churn_exists = False
        self._wide: dict[str, int] = {}
        self._works = [
            work
            for work in (self._churn, self._grow, self._change_min_isr, self._move, self._move, self._elect)
            if self._rng.chance(60)
        ]
        self._pause_us = self._rng.choice((300_000, 1_500_000, 4_000_000))

    @property
    def churns(self) -> bool:
        """Whether it deletes a topic, and creates it again."""
        return self._churn in self._works

    def make_topics(self, then: Callable[[], None]) -> None:
        """Retry until every topic exists; `then` is called once."""

        def answered(answer: Any | None) -> None:
            if answer is None or any(topic.error_code not in MADE for topic in answer.topics):
                self._channel.world.after(RETRY_US, lambda: self.make_topics(then))
            else:
                then()

        topics = [_topic(plan) for plan in self._plans.values() if plan.name != CHURN]
        fields = {"topics": topics, "timeout": dt.timedelta(seconds=5), "validate_only": False}
        self._channel.send(CREATE_TOPICS, 5, fields, answered)

    def start(self) -> None:
        if self._works and not self._is_stopped:
            self._channel.world.after(self._rng.between(1_000, self._pause_us), self._work)

    def _work(self) -> None:
        if not self._is_stopped:
            self._rng.choice(self._works)()

    def _try(
        self, what: str, api_key: int, version: int, fields: Fields, code_of: Callable[[Any], Any], left: int = TRIES
    ) -> None:
        """Retry a request a few times until it succeeds; then go on with another change."""

        def done(answer: Any | None) -> None:
            code = None if answer is None else code_of(answer)
            if code == ErrorCode.none:
                self._deliveries.count(what)
            elif left > 1 and not self._is_stopped:
                again = left - 1
                self._channel.world.after(RETRY_US, lambda: self._try(what, api_key, version, fields, code_of, again))
                return
            elif code is not None:
                self._deliveries.count(f"{what}: {ErrorCode(code).name}")
            self.start()

        self._channel.send(api_key, version, fields, done)

    def _churn(self) -> None:
        if self._churn_exists:
            self._churn_exists = False
            fields: Fields = {"topic_names": [CHURN], "timeout": WAIT}
            self._try("topics deleted", DELETE_TOPICS, 4, fields, lambda a: a.responses[0].error_code)
        else:
            self._churn_exists = True
            fields = {"topics": [_topic(self._plans[CHURN])], "timeout": WAIT, "validate_only": False}
            self._try("topics created", CREATE_TOPICS, 5, fields, lambda a: a.topics[0].error_code)

    def unregister(self, node_id: int) -> None:
        """Request that a broker is unregistered. The metadata show whether it was."""
        self._channel.send(UNREGISTER_BROKER, 0, {"broker_id": node_id}, lambda _answer: None)

    @staticmethod
    def _may_change(plan: TopicPlan) -> bool:
        return plan.name != CHURN and not plan.allows_unclean

    def _some_topic(self) -> TopicPlan:
        return self._rng.choice([plan for plan in self._plans.values() if self._may_change(plan)])

    def _grow(self) -> None:
        plan = self._some_topic()
        width = self._wide.get(plan.name, plan.partitions)
        if width > plan.partitions:
            self.start()
            return
        self._wide[plan.name] = width + 1
        topic = {"name": plan.name, "count": width + 1, "assignments": None}
        fields = {"topics": [topic], "timeout": WAIT, "validate_only": False}
        self._try("topics grown", CREATE_PARTITIONS, 2, fields, lambda a: a.results[0].error_code)

    def _change_min_isr(self) -> None:
        """Change only topics without a guarantee against a lost disk: others never go below their guaranteed minimum."""
        plans = [
            plan
            for plan in self._plans.values()
            if plan.may_be_lost and plan.replication > 1 and self._may_change(plan)
        ]
        if not plans:
            self.start()
            return
        plan = self._rng.choice(plans)
        config = {"name": "min.insync.replicas", "config_operation": 0, "value": self._rng.choice(("1", "2"))}
        resource = {"resource_type": 2, "resource_name": plan.name, "configs": [config]}
        fields = {"resources": [resource], "validate_only": False}
        self._try("configs changed", INCREMENTAL_ALTER_CONFIGS, 1, fields, lambda a: a.responses[0].error_code)

    def _move(self) -> None:
        plan = self._some_topic()
        partition = self._rng.below(plan.partitions)
        target: list[int] | None = None
        if not self._rng.chance(20):
            left = list(range(1, self._brokers + 1))
            target = [left.pop(self._rng.below(len(left))) for _ in range(plan.replication)]
        move = {"partition_index": partition, "replicas": target}
        fields = {"timeout": WAIT, "topics": [{"name": plan.name, "partitions": [move]}]}
        what = "moves begun" if target else "moves taken back"
        self._try(what, ALTER_PARTITION_REASSIGNMENTS, 0, fields, lambda a: a.error_code or _first(a.responses), left=1)

    def _elect(self) -> None:
        plan = self._some_topic()
        topic = {"topic": plan.name, "partitions": [self._rng.below(plan.partitions)]}
        fields = {"election_type": 0, "topic_partitions": [topic], "timeout": WAIT}
        self._try("preferred elections", ELECT_LEADERS, 2, fields, lambda a: a.error_code or _first_result(a), left=1)


def _topic(plan: TopicPlan) -> Fields:
    return topic_fields(plan.name, plan.configs(), plan.partitions, plan.replication)


def _first(responses: Any) -> Any:
    return responses[0].partitions[0].error_code


def _first_result(answer: Any) -> Any:
    return answer.replica_election_results[0].partition_result[0].error_code
