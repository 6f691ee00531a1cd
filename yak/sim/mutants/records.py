"""Mutants of the log: recovery, producers' sequences, deletion, reading."""

from __future__ import annotations

from typing import Any

from yak.replication.fetch_sessions import ConsumerSession
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage import producer_state
from yak.storage.log import Log
from yak.storage.log_creation import NewLog
from yak.storage.log_store import LogStore
from yak.storage.producer_state import ProducerState
from yak.storage.reader import PendingRead
from yak.storage.recovery import Recovery
from yak.storage.segment import FilesRemoval


def _follower_acks_unflushed(swaps: Swaps) -> None:
    swaps.put(ReplicaFetcher, "_name", lambda self, key, _partition, _log: self._to_name.__setitem__(key, None))


def _follower_learns_no_producers(swaps: Swaps) -> None:
    real = Log.append_as_follower

    def append(self: Log, *arguments: Any) -> Any:
        known = self.producers
        self.producers = ProducerState()
        try:
            return real(self, *arguments)
        finally:
            self.producers = known

    swaps.put(Log, "append_as_follower", append)


def _check_no_sequence(swaps: Swaps) -> None:
    swaps.put(ProducerState, "check", lambda _self, _header, **_named: None)


def _recovery_learns_no_producers(swaps: Swaps) -> None:
    real = vars(Recovery)["_take"]

    def take(self: Recovery, *arguments: Any) -> None:
        known, self._producers = self._producers, ProducerState()
        try:
            real(self, *arguments)
        finally:
            self._producers = known

    swaps.put(Recovery, "_take", take)


def _restore_no_producers(swaps: Swaps) -> None:
    swaps.put(ProducerState, "restore", lambda self, *_arguments, **_named: self.clear())


def _look_at_no_earlier_batches(swaps: Swaps) -> None:
    swaps.put(producer_state, "earlier_batches", lambda *_arguments: [])


def _keep_the_torn_tail(swaps: Swaps) -> None:
    def truncate(self: Recovery, segment: Any, _file: Any, position: int, _expected: int, reason: str) -> bool:
        self.result.truncated_because = reason
        self.result.truncated_bytes += segment.size - position
        return True

    swaps.put(Recovery, "_truncate", truncate)


def _records_come_back(swaps: Swaps) -> None:
    real = LogStore.planned_log

    def planned(self: LogStore, new: NewLog, **named: bool) -> Any:
        topic_partition, topic_id, _config = new
        held = self.logs.get(topic_partition)
        if held is None:
            return real(self, new, **named)
        held.topic_id = topic_id
        return held

    swaps.put(LogStore, "planned_log", planned)
    swaps.put(LogStore, "delete", lambda _self, _log, **_named: FilesRemoval(()))


def _expire_what_is_not_due(swaps: Swaps) -> None:
    def expired(self: Log, _now_ms: int, _mark: int) -> Any:
        return self.segments[:1] if len(self.segments) > 1 else []

    swaps.put(Log, "expired_segments", expired)


def _read_nothing_cold(swaps: Swaps) -> None:
    swaps.put(PendingRead, "take", lambda _self, _result: b"")


def _tell_sessions_nothing(swaps: Swaps) -> None:
    swaps.put(ConsumerSession, "mark_dirty", lambda _self, _item: None)


MUTANTS = (
    Mutant(
        "follower-acks-unflushed",
        "with flush.messages=1 a follower syncs first",
        _follower_acks_unflushed,
        60,
        3,
        ("power",),
    ),
    Mutant("producers-not-copied", "a follower learns the producers' sequences", _follower_learns_no_producers, 40),
    Mutant("sequences-not-checked", "an idempotent batch is stored once", _check_no_sequence, 50, 1),
    Mutant(
        "producers-lost-in-recovery", "recovery learns the producers' sequences", _recovery_learns_no_producers, 40, 1
    ),
    Mutant(
        "producer-snapshots-ignored",
        "a clean start restores producers' sequences",
        _restore_no_producers,
        40,
        1,
        ("stop",),
    ),
    Mutant(
        "earlier-batches-forgotten",
        "a start knows more than a producer's last batch",
        _look_at_no_earlier_batches,
        40,
        1,
        ("stop",),
    ),
    Mutant("torn-tail-kept", "recovery cuts what a crash tore", _keep_the_torn_tail, 100, 1),
    Mutant("deleted-records-return", "a topic made anew is empty", _records_come_back, 50, 1),
    Mutant("retention-too-early", "retention takes what is due only", _expire_what_is_not_due, 50, 1),
    Mutant(
        "cold-read-empty",
        "what is not cached is read from disk",
        _read_nothing_cold,
        200,
        1,
        ("cold cache", "cut"),
    ),
    Mutant("session-not-told", "a fetch session is told of new records", _tell_sessions_nothing, 200, 1),
)
