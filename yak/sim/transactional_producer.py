"""A transactional producer, as the Java client and librdkafka behave, and the topic that it writes to.

Each transaction writes to both partitions; those of some producers also to the compacted topic. The producer repeats a
request until its outcome is known or it is fenced. Two producers may have one transactional id: each fences the other.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import RETRY_US, Stoppable
from yak.sim.compacted_records import COMPACT, batch_for
from yak.sim.deliveries import Deliveries
from yak.sim.group_wire import CoordinatorLink
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import ObservedTransaction
from yak.sim.request_fields import Fields, init_producer_id_fields, produce_fields
from yak.sim.routing import Channel, View
from yak.sim.seeded_random import SeededRandom

TRANSACTIONS = "t-txn"
PARTITIONS = 2
PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26
_NO_PRODUCER = (-1, -1)
_RECOVERS_PERCENT = 50
"""How often a producer recovers under its id after an abort or an error, as Java's does, in place of what it did else."""
FATAL = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.transaction_abortable,
    }
)
"""Errors after which the producer gives up its transaction and initializes again."""


class SimTransactionalProducer(Stoppable):
    """Writes one transaction after the other until it is stopped."""

    topic = TRANSACTIONS

    def __init__(
        self,
        view: View,
        rng: SeededRandom,
        deliveries: Deliveries,
        name: str,
        transactional_id: str,
        *,
        timeout_ms: int,
        is_protocol_2: bool,
        pause_us: int,
        writes_compacted: bool = False,
    ) -> None:
        self._rng, self._deliveries, self._name = rng, deliveries, name
        self._world = view.cluster.world
        self._transactional_id, self._timeout_ms, self._pause_us = transactional_id, timeout_ms, pause_us
        self._is_protocol_2 = is_protocol_2
        self._partitions = [(self.topic, partition) for partition in range(PARTITIONS)]
        if writes_compacted:
            self._partitions.append((COMPACT, 0))
        self._channels = [Channel(view, rng.fork(f"{number}"), place) for number, place in enumerate(self._partitions)]
        self._coordinator = CoordinatorLink(view, rng, transactional_id, is_group=False)
        self._producer = _NO_PRODUCER
        self._sequences = [0] * len(self._partitions)
        self._value_number = 0
        self._unacked = 0
        self._ending: ObservedTransaction | None = None
        self._is_commit = False

    def start(self) -> None:
        self._initialize(_NO_PRODUCER)

    def _initialize(self, expected: tuple[int, int]) -> None:
        """Get an id and epoch; with an `expected` one the producer recovers from an error (KIP-360)."""
        self._producer, self._sequences = _NO_PRODUCER, [0] * len(self._partitions)
        fields = init_producer_id_fields(self._transactional_id, timeout_ms=self._timeout_ms)
        fields |= {"producer_id": expected[0], "producer_epoch": expected[1]}
        self._ask(INIT_PRODUCER_ID, 4, fields, lambda answer: self._on_id(answer, expected))

    # -------------------------------------------------------------------------------------------- the transaction

    def _on_id(self, answer: Any | None, expected: tuple[int, int]) -> None:
        if answer is None or answer.error_code != ErrorCode.none:
            self._leave_unless_concurrent(answer)
            if answer is not None and answer.error_code == ErrorCode.producer_fenced:
                expected = _NO_PRODUCER
            self._after(RETRY_US, lambda: self._initialize(expected))
            return
        if expected != _NO_PRODUCER:
            self._deliveries.count("producers recovered")
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._begin()

    def _begin(self) -> None:
        if self._is_stopped:
            return
        self._ending = self._deliveries.recorder.begins(self._name)
        self._is_commit = self._rng.chance(70)
        if self._is_protocol_2:
            self._write()
        else:
            self._add()

    def _add(self) -> None:
        fields = {
            "v3_and_below_transactional_id": self._transactional_id,
            "v3_and_below_producer_id": self._producer[0],
            "v3_and_below_producer_epoch": self._producer[1],
            "v3_and_below_topics": [{"name": topic, "partitions": [partition]} for topic, partition in self._targets()],
        }
        self._ask(ADD_PARTITIONS, 3, fields, self._on_added)

    def _on_added(self, answer: Any | None) -> None:
        codes = (
            ()
            if answer is None
            else [
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ]
        )
        if codes and all(code == ErrorCode.none for code in codes):
            self._write()
        elif any(code in FATAL for code in codes):
            self._give_up()
        else:
            self._coordinator.leave()
            self._after(RETRY_US, self._add)

    def _write(self) -> None:
        assert self._ending is not None
        ending, written = self._ending, self._values()
        self._unacked = len(written)
        if not written:
            self._written()
        for number, values in written.items():
            place = self._partitions[number]
            self._deliveries.recorder.sent(place, values, ending.number)
            if place[0] == COMPACT:
                self._deliveries.of(*place).sent.update(dict.fromkeys(values))
            self._produce(ending, number, values, self._sequences[number])
            self._sequences[number] += len(values)

    def _targets(self) -> list[tuple[str, int]]:
        """The partitions that it adds to the transaction before it writes to them (protocol 1)."""
        return self._partitions

    def _values(self) -> dict[int, list[bytes]]:
        """What the next transaction writes, by the number of the place."""
        return {
            number: [self._value() for _ in range(self._rng.between(1, 3))] for number in range(len(self._partitions))
        }

    def _value(self, content: str = "") -> bytes:
        """A value of its own, with its producer's name and perhaps a content."""
        self._value_number += 1
        return f"{self._name}:{self._value_number}{content}".encode()

    def _written(self) -> None:
        """Every record was acknowledged."""
        self._after(self._rng.between(0, self._pause_us), self._end)

    def _produce(self, ending: ObservedTransaction, number: int, values: list[bytes], sequence: int) -> None:
        if ending is not self._ending:
            return
        topic, partition = self._partitions[number]
        batch = batch_for(
            topic,
            values,
            self._world.now_ms,
            producer_id=self._producer[0],
            epoch=self._producer[1],
            sequence=sequence,
            is_transactional=True,
        )
        fields = produce_fields(topic, batch, partition=partition)
        fields |= {"transactional_id": self._transactional_id, "timeout": dt.timedelta(seconds=2)}
        version = 12 if self._is_protocol_2 else 9

        def on_produced(answer: Any | None) -> None:
            if ending is not self._ending:
                return
            result = None if answer is None else answer.responses[0].partition_responses[0]
            if result is not None and result.error_code == ErrorCode.none:
                self._deliveries.recorder.acknowledged(result.base_offset, values)
                self._unacked -= 1
                if not self._unacked:
                    self._written()
            elif result is not None and result.error_code in FATAL:
                self._give_up()
            else:
                self._after(RETRY_US, lambda: self._produce(ending, number, values, sequence))

        self._channels[number].send(PRODUCE, version, fields, on_produced)

    def _end(self) -> None:
        assert self._ending is not None
        self._deliveries.recorder.ends(self._ending, is_commit=self._is_commit)
        fields = {
            "transactional_id": self._transactional_id,
            "producer_id": self._producer[0],
            "producer_epoch": self._producer[1],
            "committed": self._is_commit,
        }
        self._ask(END_TXN, 5 if self._is_protocol_2 else 3, fields, self._on_ended)

    def _on_ended(self, answer: Any | None) -> None:
        if answer is not None and answer.error_code == ErrorCode.none:
            assert self._ending is not None
            self._deliveries.recorder.ended(self._ending)
            self._deliveries.count("transactions committed" if self._is_commit else "transactions aborted")
            ending, self._ending = self._ending, None
            if self._is_protocol_2 and (answer.producer_id, answer.producer_epoch) != self._producer:
                self._producer, self._sequences = (
                    (answer.producer_id, answer.producer_epoch),
                    [0] * len(self._partitions),
                )
            self._is_over(ending.outcome)
            recovers = not self._is_commit and self._rng.chance(_RECOVERS_PERCENT)
            then = (lambda: self._initialize(self._producer)) if recovers else self._begin
            self._after(self._rng.between(0, self._pause_us), then)
        elif answer is not None and answer.error_code in FATAL:
            self._give_up()
        else:
            self._leave_unless_concurrent(answer)
            self._after(RETRY_US, self._end)

    def _is_over(self, outcome: Outcome) -> None:
        """The transaction has ended, as far as its producer knows."""

    def _give_up(self) -> None:
        """The transaction is over: fenced, or timed out."""
        is_unknown = self._ending is not None and self._ending.invoked is not None and self._is_commit
        self._deliveries.count("transactions unknown" if is_unknown else "transactions fenced")
        self._ending = None
        self._is_over(Outcome.INFO if is_unknown else Outcome.FAIL)
        if not self._is_stopped:
            expected = self._producer if self._rng.chance(_RECOVERS_PERCENT) else _NO_PRODUCER
            wait_us = self._rng.between(RETRY_US, RETRY_US + self._pause_us)
            self._after(wait_us, lambda: self._initialize(expected))

    # ---------------------------------------------------------------------------------------------- the coordinator

    def _after(self, wait_us: int, then: Any) -> None:
        self._world.after(wait_us, then)

    def _leave_unless_concurrent(self, answer: Any | None) -> None:
        if answer is None or answer.error_code != ErrorCode.concurrent_transactions:
            self._coordinator.leave()

    def _ask(self, api_key: int, version: int, fields: Fields, done: Any) -> None:
        self._coordinator.send(api_key, fields, done, version)
