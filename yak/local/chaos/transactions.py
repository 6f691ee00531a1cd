"""Transactional clients of a run: writers that commit or abort, and workers that read, process and write (KIP-447)."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.ids import TopicPartition
from yak.local.chaos.members import Library, Member, librdkafka
from yak.local.chaos.readers import poll
from yak.local.chaos.recorder import Recorder, encode, value_of
from yak.local.chaos.writers import CONFIG, RECORD_BYTES, log_config
from yak.local.load import Load
from yak.sim.history_checker.history import Outcome

RECORDS: Final = (2, 5)
"""The smallest and the largest number of records in a writer's transaction."""
_ABORTED_OF: Final = 4
"""A writer aborts one of so many transactions."""
_TRANSACTION_MS: Final = 10_000
"""Transactions of dead clients are aborted after this time; readers with read_committed wait for it."""
_CALL_SECONDS: Final = 2.0
_STUCK_SECONDS: Final = 30.0
"""When a call of `send_offsets_to_transaction`, or the attempts to abort, end without a result.

The call is limited to `_CALL_SECONDS`, but librdkafka ignores the limit (its issue 5456), and may wait for ever for a
group coordinator whose connection it has dropped (its issue 5511). A broker that does not answer delays it by the socket
timeout of 10 s at most, and does not count as stuck. `abort_transaction` may wait for ever too: for a record that was
refused with OUT_OF_ORDER_SEQUENCE_NUMBER, since librdkafka sent the sequence of one that it had dropped again. The
coordinator has aborted the transaction long before.
"""


class _Stuck(Exception):
    """A call of librdkafka does not return."""


def _in_time(do: Callable[[], object]) -> None:
    """Call `do` in a thread of its own. Raises _Stuck when it does not return, and what it raises."""
    errors: list[Exception] = []

    def run() -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_STUCK_SECONDS)
    if thread.is_alive():
        raise _Stuck
    if errors:
        raise errors.pop()  # the list is in the error's traceback: a cycle that would keep the client's threads alive


class TransactionalProducer:
    """A producer with a transactional id. After a fatal error another one with this id replaces it."""

    def __init__(
        self,
        client_id: str,
        bootstrap: str,
        transactional_id: str,
        recorder: Recorder,
        *,
        number: int,
        log: logging.Logger | None = None,
        library: Library | None = None,
    ) -> None:
        self.client_id = client_id
        self._number = number
        self._recorder = recorder
        self._dropped = threading.Event()
        self._sequence = 0
        self._producer: Any = None
        self.library = library or librdkafka()
        self._config = {
            **base_config(bootstrap),
            **IMPATIENT,
            **CONFIG,
            **log_config(log),
            "client.id": client_id,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _TRANSACTION_MS,
            "delivery.timeout.ms": _TRANSACTION_MS,
        }

    def transact(self, write: Callable[[int], None], *, commits: bool = True) -> Outcome:
        """Begin a transaction, `write` into it by its number, and commit or abort it; return its outcome."""
        import confluent_kafka

        txn = self._recorder.begin(self.client_id)
        try:
            self._ready()
            self._producer.begin_transaction()
            write(txn)
            # Once all records are acknowledged, only the commit itself can fail.
            while self._producer.flush(_CALL_SECONDS) and not self._dropped.is_set():
                pass  # records that are not acknowledged time out
            if commits:
                if not self._recorder.committing(txn):
                    return Outcome.INFO  # dropped meanwhile
                self.call(self._producer.commit_transaction)
                return self._recorder.ended(txn, is_committed=True)
            self.call(self._producer.abort_transaction, _STUCK_SECONDS)
        except confluent_kafka.KafkaException as error:
            self._recover(error.args[0])
        except _Stuck:
            self._recorder.hung_calls += 1
            self._give_up()
        return self._recorder.ended(txn, is_committed=False)

    def send(self, txn: int, partition: TopicPartition, key: bytes | None = None) -> None:
        self._sequence += 1
        value = value_of(self._number, self._sequence)

        def delivered(error: Any, message: Any) -> None:
            self._recorder.delivered(value, error, message)

        self._recorder.sending(self.client_id, f"{partition.topic}-{partition.partition}", value, txn)
        content = encode(value, RECORD_BYTES)
        self._producer.produce(partition.topic, content, key, partition=partition.partition, on_delivery=delivered)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], metadata: Any) -> None:
        """Send offsets of a group in the transaction. Raises _Stuck when librdkafka does not return."""
        import confluent_kafka

        wires = [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
        producer = self._producer
        self.call(lambda seconds: _in_time(lambda: producer.send_offsets_to_transaction(wires, metadata, seconds)))

    def call(self, do: Callable[[float], object], seconds_max: float = math.inf) -> None:
        """Call `do` with a time limit, again while its error is retriable. Raises _Stuck after `seconds_max`."""
        import confluent_kafka

        gives_up_at = time.monotonic() + seconds_max
        while True:
            try:
                do(_CALL_SECONDS)
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable() or self._dropped.is_set():
                    raise
                if time.monotonic() > gives_up_at:
                    raise _Stuck from error
            else:
                return

    def drop(self) -> None:
        """Leave an open transaction to its timeout, or to the next producer with this transactional id."""
        self._dropped.set()
        self._recorder.gave_up(self.client_id)
        self.library.kill()

    def _ready(self) -> None:
        if self._producer is None:
            self._producer = self.library.producer(self._config)
            self.call(self._producer.init_transactions)

    def _recover(self, error: Any) -> None:
        """Abort the transaction; replace a producer that cannot: its successor aborts it."""
        import confluent_kafka

        if not error.fatal() and not self._dropped.is_set():
            try:
                self.call(self._producer.abort_transaction, _STUCK_SECONDS)
            except confluent_kafka.KafkaException:
                pass
            except _Stuck:
                self._recorder.hung_calls += 1
            else:
                return
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._give_up()

    def _give_up(self) -> None:
        """Let the next transaction make a new producer; its `init_transactions` fences this one."""
        self._producer = None
        self._recorder.gave_up(self.client_id)


class TransactionalWriter(Load):
    """Transactions of several records over several partitions, at a steady rate; some are aborted."""

    def __init__(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition], *, every_s: float
    ) -> None:
        super().__init__(producer.client_id, 1.0 / every_s)
        self._partitions = partitions
        self._producer = producer

    def send(self, number: int) -> None:
        low, high = RECORDS
        count = low + number % (high - low + 1)

        def write(txn: int) -> None:
            for index in range(count):
                self._producer.send(txn, self._partitions[(number + index) % len(self._partitions)])

        self._producer.transact(write, commits=number % _ABORTED_OF != _ABORTED_OF - 1)

    def finish(self, timeout_seconds: float) -> int:
        """Stop after the present transaction; return 1 if it does not end in time."""
        self.stop(timeout_seconds)
        return int(self._thread.is_alive())

    def drop(self) -> None:
        """Stop like a dying client; a call of librdkafka may last a little longer."""
        self.enough.set()
        self._producer.drop()


class Worker(Member):
    """Reads one topic as a member of a group, and writes each record to another topic, in one transaction a poll."""

    def __init__(
        self, producer: TransactionalProducer, bootstrap: str, source: str, target: Sequence[TopicPartition],
        group: str, recorder: Recorder,
    ) -> None:  # fmt: skip
        super().__init__(producer.client_id, bootstrap, [source], group, recorder, library=producer.library)
        self._target = target
        self._producer = producer

    def drop(self) -> None:
        """Stop without leaving the group, and without ending the transaction."""
        self._stopping.set()
        self._producer.drop()
        super().drop()

    def _step(self) -> None:
        """Poll once, and process what was read in a transaction; after a failure, read again from the group's offsets."""
        invoked = self._recorder.now()
        records, positions = poll(self._consumer, self.client_id, self._recorder, self._poll_seconds)
        if not positions:
            return

        def write(txn: int) -> None:
            self._recorder.polled_messages(self.client_id, invoked, records, txn=txn)
            for record in records:
                self._producer.send(txn, self._target[record.partition() % len(self._target)], record.value()[:8])
            offsets = {}
            for name, offset in positions.items():
                topic, _, partition = name.rpartition("-")
                offsets[TopicPartition(topic, int(partition))] = offset
            self._producer.send_offsets(offsets, self._consumer.consumer_group_metadata())

        requested_at = self._recorder.now()
        outcome = self._producer.transact(write)
        self._recorder.committed(self.client_id, self._group, requested_at, positions, outcome)
        if outcome is not Outcome.OK and not self._stopping.is_set():
            self._assigned(self._consumer, self._consumer.assignment())
