"""Mutants of the ISR, of broker registration, and of trust in the metadata store."""

from __future__ import annotations

from typing import Any

from yak.broker.broker import Broker
from yak.cluster import restore
from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.image import Image
from yak.cluster.pause_detection import PauseDetector
from yak.cluster.snapshot import write_snapshot
from yak.core.events import StoreLost
from yak.metadata_store import brokers, controller, isr
from yak.replication.isr import IsrProposal
from yak.replication.partition import Partition
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.log_store import LogStore


def _forget_with_the_answer(swaps: Swaps) -> None:
    real = Broker.step

    def forget(self: Broker, event: Any, now_ms: int) -> Any:
        if type(event) is StoreLost:
            for partition in self.partitions.values():
                if partition.pending_isr is not None:
                    partition.settle(partition.pending_isr)
        return real(self, event, now_ms)

    swaps.put(Broker, "step", forget)


def _believe(partition: Partition, members: tuple[tuple[int, int], ...]) -> None:
    partition.isr = tuple(node_id for node_id, _epoch in members)
    partition.isr_epochs = tuple(epoch for _node_id, epoch in members)
    if len(members) >= partition.effective_min_isr:
        partition.elr = ()
    partition.count_quorum()


def _shrink_at_once(swaps: Swaps) -> None:
    real = Partition.propose

    def propose(self: Partition, proposal: IsrProposal) -> None:
        real(self, proposal)
        _believe(self, tuple(member for member in self.isr_members if member in proposal.members))

    swaps.put(Partition, "propose", propose)


def _grow_at_once(swaps: Swaps) -> None:
    real = Partition.propose

    def propose(self: Partition, proposal: IsrProposal) -> None:
        real(self, proposal)
        _believe(self, tuple(dict.fromkeys((*self.isr_members, *proposal.members))))
        if self.is_leader and self.log is not None:
            self.advance_high_watermark()

    swaps.put(Partition, "propose", propose)


def _any_boot_is_a_member(swaps: Swaps) -> None:
    def is_current(state: Any, member: Any, *states: str) -> bool:
        broker = state.brokers.get(member.node_id)
        return broker is not None and broker["state"] in states

    for scripts in (isr, controller):
        swaps.put(scripts, "is_current", is_current)


def _tell_of_no_loss(swaps: Swaps) -> None:
    swaps.put(LogStore, "_check_reboot", lambda *_arguments: None)


def _see_no_loss(swaps: Swaps) -> None:
    swaps.put(brokers, "_lost_something", lambda *_arguments: False)


def _hold_an_outage_against_all(swaps: Swaps) -> None:
    swaps.put(FailureDetector, "reset", lambda _self: None)
    swaps.put(PauseDetector, "paused_ms", lambda _self, _now_ms: 0)


def _restore_from_the_oldest_image(swaps: Swaps) -> None:
    """Restore from the image that lacks most, as soon as one broker has offered."""
    swaps.put(restore, "_position", lambda offer: (-offer.image.offset, offer.node_id))
    swaps.put(restore, "_missing_brokers", lambda _offers, _before: {})
    swaps.put(restore, "_other_histories", lambda _offers: {})


def _believe_an_empty_store(swaps: Swaps) -> None:
    """Create the cluster again in the empty store, and accept its metadata."""
    verified, apply = BrokerLifecycle._on_verified, Image.apply_all  # noqa: SLF001

    def on_verified(self: Any, outcome: Any, now_ms: int) -> None:
        if outcome.code == "NO_CLUSTER":
            self._session.image, self._session.cluster_id, self.admitted = Image(), "", (0, "")
        verified(self, outcome, now_ms)

    def apply_all(self: Image, records: Any) -> Any:
        records = list(records)
        if records and records[0].offset == 1 and self.offset:
            empty, _delta = apply(Image(), records)
            records = [write_snapshot(empty)]
        return apply(self, records)

    swaps.put(BrokerLifecycle, "_on_verified", on_verified)
    swaps.put(Image, "apply_all", apply_all)


MUTANTS = (
    Mutant(
        "isr-change-forgotten",
        "a change whose answer got lost still counts (4.6)",
        _forget_with_the_answer,
        60,
        faults=("lost calls", "pause"),
    ),
    Mutant("isr-shrunk-before-the-store-agreed", "a shrink counts after the store's OK", _shrink_at_once, 100),
    Mutant(
        "isr-grown-before-the-store-agreed",
        "a growth counts after the store's OK",
        _grow_at_once,
        100,
        faults=("kill", "lost calls"),
    ),
    Mutant(
        "broker-epoch-ignored-on-return",
        "an ISR has boots, not brokers (KIP-903)",
        _any_boot_is_a_member,
        60,
    ),
    Mutant(
        "power-loss-not-told", "a boot that lost its tail leaves ISR and ELR", _tell_of_no_loss, 60, faults=("power",)
    ),
    Mutant(
        "wiped-disk-believed", "a boot on another disk leaves ISR and ELR", _see_no_loss, 60, faults=("wipe", "kill")
    ),
    Mutant(
        "session-expired-by-an-outage",
        "no broker is fenced by an outage",
        _hold_an_outage_against_all,
        60,
        faults=("outage",),
    ),
    Mutant(
        "store-believed-after-a-wipe",
        "an emptied store freezes the metadata (4.8)",
        _believe_an_empty_store,
        60,
        1,
        ("regression",),
    ),
    Mutant(
        "restored-from-the-oldest-image",
        "a restore needs all images, and takes the newest",
        _restore_from_the_oldest_image,
        60,
        faults=("lost history", "cut store", "slow way", "pause", "kill"),
    ),
)
