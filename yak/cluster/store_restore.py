"""A broker's part in a restore of the metadata store, and the snapshot that it reads where its position was trimmed.

    the store lost the history -> offer the image to it; the store then refuses every other call, so that no broker uses it
    the store has another incarnation that comes from this broker's -> load its snapshot, go on as a member of it

An operator restores in between (`yak cluster restore`): no broker does so by itself. The plan is in
`yak.cluster.restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.hash_chain import HashChainTail
from yak.cluster.records import BrokerState
from yak.cluster.restore import Offer, pack
from yak.cluster.store_session import StoreSession
from yak.ids import MetadataOffset
from yak.ports.metadata_store import StoreOutcome, TailedRecord

if TYPE_CHECKING:
    from yak.cluster.broker_lifecycle import BrokerLifecycle

BUSY_MS = 10_000
"""Loading a snapshot takes less time, or the connection fails before."""
LOST = frozenset({"NO_CLUSTER", "REGRESSED", "FORKED", "SEEDING"})
"""Refusals of a store that lost the history, or that an operator has to restore for another broker's sake."""
WAITS = "an operator must restore it: yak cluster restore"


class StoreRestore:
    """Offers this broker's image while the metadata are frozen, and adopts a restored one."""

    def __init__(
        self, lifecycle: BrokerLifecycle, session: StoreSession, boot_id: str, hash_chain: Callable[[], HashChainTail]
    ) -> None:
        self._lifecycle = lifecycle
        self._session = session
        self._boot_id = boot_id
        self._hash_chain = hash_chain
        self._offered: object = None
        """The offer that a store accepted: the image's position and the broker epoch."""
        self._adopts = False
        self._trimmed_offset: MetadataOffset | None = None
        """The end of this broker's copy, whose next record the store trimmed, until the store's snapshot replaces it."""

    def pause(self) -> None:
        """Abandon the calls under way: no reply will come."""
        self._adopts = False
        self._trimmed_offset = None

    def on_refused(self, outcome: StoreOutcome, now_ms: int) -> None:
        """The store does not hold this broker's history, and the metadata are frozen."""
        image = self._session.image
        if image.offset == 0 or self._lifecycle.admitted != (image.offset, image.chain_hash):
            return  # it knows nothing, or newer records are still on their way to its disk
        if outcome.code in LOST:
            self._offer(is_known=outcome.value.get("offered") is True)
        elif outcome.code == "WRONG_INCARNATION":
            self._on_incarnation(outcome.value, now_ms)

    # ---------------------------------------------------------------------------------------------------- offering

    def _offer(self, *, is_known: bool) -> None:
        session = self._session
        image = session.image
        key = (image.offset, image.chain_hash, session.broker_epoch)
        if is_known and self._offered == key:
            return
        # A disk that lost something may lack what an earlier registration acted on.
        boot_id, epoch = ("", 0) if session.is_lossy else (self._boot_id, session.broker_epoch)
        offer = Offer(session.node_id, boot_id, epoch, image, self._hash_chain())
        arguments: dict[str, object] = {
            "incarnation": image.incarnation,
            # The store may have another incarnation than this broker's image: the image's counts.
            "incarnation_id": image.incarnation_id,
            "offer": pack(offer),
        }
        session.send("seed_offer", arguments, lambda outcome, _now_ms: self._on_offered(key, outcome))

    def _on_offered(self, key: object, outcome: StoreOutcome) -> None:
        if outcome.code != "OK":
            return  # the history is back, or there is another one: the next check shows it
        self._offered = key
        self._lifecycle.awaited = WAITS
        image = self._session.image
        self._session.say(
            "warning",
            "metadata-restore-offered",
            metadata_offset=image.offset,
            topics=len(image.topics),
            reason=self._lifecycle.reason,
        )

    # -------------------------------------------------------------------------------------------------- adopting

    def _on_incarnation(self, value: Mapping[str, Any], now_ms: int) -> None:
        """The store has another incarnation of the cluster than this broker's image."""
        session, lifecycle = self._session, self._lifecycle
        image = session.image
        if int(value["incarnation"]) < image.incarnation:
            self._offer(is_known=False)
            return
        offered = tuple(value.get("took_part") or ())
        if offered and offered != (image.offset, image.chain_hash):
            lifecycle.awaited = (
                f"it was restored with what this broker knew up to record {offered[0]}, but the broker continued in another "
                "history since; to copy it again, empty its data directory"
            )
        elif image.incarnation_id not in str(value["parents"]).split(","):
            lifecycle.awaited = "that incarnation does not come from the one that this broker knows"
        else:
            self._adopts = True
            session.say("warning", "metadata-restore-adopted", incarnation=value["incarnation"])
            if value["lost"]:
                session.say(
                    "error",
                    "metadata-restore-unclean",
                    partitions=value["lost"],
                    what="an operator accepted that acknowledged records of these may be lost",
                )
            lifecycle.begin_adoption(now_ms + BUSY_MS)

    def may_read_snapshot(self, registered: object) -> bool:
        """Whether the store's snapshot may replace this broker's copy, behind which the store trimmed the log.

        `registered` is this broker in the store, closed there. If this copy has the last registration under which the
        broker acted (a stop may come before a newer one is in the copy), the store has the history in which this broker
        acknowledged records, and no later incarnation acknowledged any. So its logs are whole. Any other store may have
        been rolled back before it trimmed, or the disk may be older than a later incarnation.
        """
        image = self._session.image
        own = image.brokers.get(self._session.node_id)
        return (
            own is not None
            and isinstance(registered, Mapping)
            and registered["state"] == BrokerState.CLOSED
            and registered["acted_epoch"] <= own.broker_epoch <= registered["broker_epoch"]
            and (own.boot_id == registered["boot_id"] or own.broker_epoch < registered["broker_epoch"])
            and self._lifecycle.admitted == (image.offset, image.chain_hash)
        )

    def read_snapshot(self, now_ms: int) -> None:
        """Read the store's snapshot in place of the trimmed records."""
        offset = self._session.image.offset
        self._session.say("info", "metadata-snapshot-requested", trimmed_offset=offset)
        self._lifecycle.begin_adoption(now_ms + BUSY_MS)
        self._trimmed_offset = offset

    def may_admit(self, record: TailedRecord) -> bool:
        """Whether a snapshot may replace the image: one of another incarnation only while this broker adopts it."""
        image = self._session.image
        is_ours = not image.offset or record.payload.get("incarnation_id") == image.incarnation_id
        return is_ours or self._adopts

    def on_image(self) -> None:
        """Go on with the snapshot once it is the image: as a member of its incarnation, also if the connection was lost."""
        session = self._session
        if self._trimmed_offset is not None and session.image.offset > self._trimmed_offset:
            self._trimmed_offset = None
            self._lifecycle.end_adoption()
            return
        if session.image.incarnation_id == session.incarnation_id or not session.image.offset:
            return
        session.incarnation_id = session.image.incarnation_id
        # it registers as at its start: the store may know an earlier registration only
        session.broker_epoch = 0
        if self._adopts:
            self._adopts = False
            self._lifecycle.end_adoption()
