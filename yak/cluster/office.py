"""The controller's office: taking and keeping the lease, unfencing and fencing brokers, electing leaders.

The lease only says when to try; what fences an old controller is the controller epoch that its scripts carry. Work is
looked for when brokers changed or the office was taken, not on a timer.
"""

import json
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from yak.cluster.elections import MAX_PARTITIONS_PER_CALL, Election, needed_elections
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.image import BrokerInfo
from yak.cluster.link import FREEZING_CODES, Link
from yak.cluster.records import BrokerState
from yak.cluster.snapshot import write_snapshot
from yak.ids import MetadataOffset
from yak.seams.metadata_store import StoreOutcome

RETRY_MS = 250
KEEP_RECORDS = 100_000
"""Records that stay in the store's log behind a snapshot, for brokers that come back after a while."""
TRIM_EVERY = 100_000


class Office:
    """One broker's share in the controller's office, held or only wanted."""

    def __init__(
        self,
        link: Link,
        *,
        lease_ms: int,
        renew_ms: int,
        session_timeout_ms: int,
        on_refused: Callable[[StoreOutcome, int], None],
    ) -> None:
        self._link = link
        self._lease_ms = lease_ms
        self._renew_ms = renew_ms
        self._on_refused = on_refused
        self._detector = FailureDetector(session_timeout_ms)
        self._since_offset: MetadataOffset = 0
        self._looked_at: object = None
        """The image's `brokers` at the last look for elections: the same object means nothing to look for."""
        self._in_flight = 0
        self._look_again_at: MetadataOffset = 0
        self._refused: dict[tuple[Any, int], int] = {}
        self._unfencing: dict[int, int] = {}
        self._trimmed_at: MetadataOffset = 0
        self.due_ms: int | None = None
        """When the lease wants attention."""

    @property
    def held(self) -> bool:
        """Whether we are the controller as far as we know."""
        return self._link.controller_epoch > 0

    def settled(self) -> bool:
        """Whether no election is under way or waiting for the image."""
        link = self._link
        if not self.held:
            return self.due_ms is not None
        return (
            self._in_flight == 0
            and link.image.offset >= max(self._since_offset, self._look_again_at)
            and self._looked_at is link.image.brokers
        )

    def open(self, now_ms: int) -> None:
        """The broker is registered and the store answers: try for the lease, or make sure of it."""
        self._detector.reset()
        self._in_flight = 0
        self._looked_at = None
        self._unfencing.clear()
        self.due_ms = None
        self._acquire(now_ms)

    def pause(self) -> None:
        """The store is away or not ours: no calls. The office, if held, is kept until another takes it."""
        self.due_ms = None
        self._in_flight = 0

    def on_time(self, now_ms: int) -> None:
        """The lease is due."""
        self.due_ms = None
        if not self.held:
            self._acquire(now_ms)
            return
        self._link.send("renew_lease", {"lease_ms": self._lease_ms}, self._on_renewed)
        self._trim_when_long()

    def on_heartbeats(self, counters: dict[int, int], now_ms: int) -> None:
        """All brokers' counters, read with our own heartbeat."""
        if not self.held:
            return
        brokers = self._link.image.brokers
        self._detector.observe(counters, brokers, now_ms)
        for broker in self._detector.to_unfence(brokers):
            self._unfence(broker.node_id, broker.broker_epoch)
        for broker in self._detector.to_fence(brokers, now_ms):
            if broker.node_id != self._link.node_id:
                self._fence(broker)

    def on_image(self) -> None:
        """The image moved on: look for leaders to elect when brokers changed since the last look."""
        link = self._link
        image = link.image
        if not self.held or self._in_flight or image.offset < max(self._since_offset, self._look_again_at):
            return
        if self._looked_at is image.brokers and not self._look_again_at:
            return
        if self._looked_at is not image.brokers:
            self._refused.clear()
        self._looked_at = image.brokers
        self._look_again_at = 0
        elections = (e for e in needed_elections(image) if not self._was_refused(e))
        while batch := list(islice(elections, MAX_PARTITIONS_PER_CALL)):
            self._in_flight += 1
            arguments: dict[str, object] = {"partitions": [election.arguments() for election in batch]}
            link.send("elect", arguments, partial(self._on_elected, batch))

    # ------------------------------------------------------------------------------------------------ inside

    def _acquire(self, now_ms: int) -> None:
        self._link.send("acquire_lease", {"lease_ms": self._lease_ms}, self._on_acquired)
        del now_ms

    def _on_acquired(self, outcome: StoreOutcome, now_ms: int) -> None:
        link = self._link
        if outcome.code == "LEASE_HELD":
            link.controller_epoch = 0
            ttl_ms = outcome.value.get("ttl_ms")
            self.due_ms = now_ms + (max(ttl_ms, 0) if isinstance(ttl_ms, int) else 0) + RETRY_MS
            return
        if outcome.code != "OK":
            self._failed(outcome, now_ms)
            return
        epoch = outcome.value["controller_epoch"]
        assert isinstance(epoch, int)
        if epoch != link.controller_epoch:
            link.controller_epoch = epoch
            link.say("info", "controller-office-taken", controller_epoch=epoch)
        self._since_offset = outcome.offset
        self.due_ms = now_ms + self._renew_ms
        # We are alive: no need to see our own counter move first.
        self._unfence(link.node_id, link.broker_epoch)

    def _on_renewed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            self.due_ms = now_ms + self._renew_ms
        else:
            self._failed(outcome, now_ms)

    def _trim_when_long(self) -> None:
        image = self._link.image
        if image.offset - self._trimmed_at < TRIM_EVERY:
            return
        self._trimmed_at = image.offset
        arguments: dict[str, object] = {
            "snapshot": json.dumps(write_snapshot(image).payload, separators=(",", ":")),
            "snapshot_offset": image.offset,
            "snapshot_hash": image.chain_hash,
            "keep": KEEP_RECORDS,
        }
        self._link.send("trim", arguments, self._on_trimmed)

    def _on_trimmed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            self._link.say("info", "metadata-log-trimmed", records=outcome.value.get("trimmed"))
        else:
            self._failed(outcome, now_ms)

    def _unfence(self, node_id: int, broker_epoch: int) -> None:
        if self._unfencing.get(node_id) == broker_epoch:
            return
        self._unfencing[node_id] = broker_epoch

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            self._unfencing.pop(node_id, None)
            if outcome.code not in ("OK", "STALE_EPOCH", "NOT_CAUGHT_UP"):
                self._failed(outcome, now_ms)

        self._link.send("unfence", {"target_id": node_id, "target_epoch": broker_epoch}, on_reply)

    def _fence(self, broker: BrokerInfo) -> None:
        self._link.say("warning", "broker-fenced", node_id=broker.node_id, broker_epoch=broker.broker_epoch)

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if outcome.code not in ("OK", "STALE_EPOCH"):
                self._failed(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": broker.node_id, "target_epoch": broker.broker_epoch}
        self._link.send("fence", arguments, on_reply)

    def _on_elected(self, batch: list[Election], outcome: StoreOutcome, now_ms: int) -> None:
        self._in_flight -= 1
        if outcome.code != "OK":
            self._failed(outcome, now_ms)
            return
        self._look_again_at = max(self._look_again_at, outcome.offset)
        codes = outcome.value.get("codes")
        if not isinstance(codes, list):
            return
        for election, code in zip(batch, codes, strict=False):
            if code != "OK":
                # Not tried again until the partition (its epoch) or the brokers changed.
                self._refused[election.topic_id, election.partition] = election.partition_epoch
            elif election.unclean:
                self._link.say(
                    "warning",
                    "unclean-election",
                    topic_id=str(election.topic_id),
                    partition=election.partition,
                    leader=election.leader,
                )

    def _was_refused(self, election: Election) -> bool:
        return self._refused.get((election.topic_id, election.partition)) == election.partition_epoch

    def _failed(self, outcome: StoreOutcome, now_ms: int) -> None:
        link = self._link
        if outcome.code in ("FENCED_CONTROLLER", "LEASE_HELD"):
            if self.held:
                link.say("warning", "controller-office-lost", controller_epoch=link.controller_epoch)
            link.controller_epoch = 0
            self.due_ms = now_ms + RETRY_MS
            return
        self.due_ms = now_ms + RETRY_MS
        if outcome.code in FREEZING_CODES or outcome.code == "STALE_BROKER_EPOCH":
            self._on_refused(outcome, now_ms)
        else:
            self._looked_at = None
            link.say("warning", "metadata-call-refused", code=outcome.code, reason=outcome.value.get("message", ""))

    def describe(self) -> dict[str, object]:
        """For people."""
        image = self._link.image
        active = sum(broker.state is BrokerState.ACTIVE for broker in image.brokers.values())
        return {"id": image.controller_id, "epoch": image.controller_epoch, "held": self.held, "active": active}
