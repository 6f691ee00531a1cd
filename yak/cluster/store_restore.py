"""A frozen broker's part in the restore of the metadata store: it offers its state, and one broker merges all offers.

    the store lost the history -> begin (the store is SEEDING: nothing changes there) -> offer -> wait for all brokers
      -> wait a little more, since an operator may bring the real data back -> read, merge, commit
    the store has another incarnation that comes from this broker's -> load its snapshot, go on as a member of it

All known brokers must have offered to this very store. So of two stores that answer to different brokers neither is
restored automatically. If a broker is missing, or a partition is quarantined or in conflict, the restore waits for an
operator: `yak cluster restore` does the same with the operator's consent. The merge is in `yak.cluster.restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import BadRecord
from yak.cluster.restore import Plan, StoreBefore, merge
from yak.cluster.restore_commit import commit_arguments
from yak.cluster.restore_offer import LocalState, Offer, PackedOffer, pack, unpack
from yak.cluster.restore_status import SeedStatus
from yak.cluster.store_session import StoreSession
from yak.ports.metadata_store import StoreOutcome, TailedRecord
from yak.ports.random_source import RandomSource

if TYPE_CHECKING:
    from yak.cluster.broker_lifecycle import BrokerLifecycle
    from yak.cluster.registration import Identity

RECHECK_MS = 500
"""How often a broker checks the progress of the restore."""
TURN_MS = 3_000
"""How much longer each further broker waits before it does the first broker's work."""
BUSY_MS = 10_000
"""Reading and writing take less time, or the connection fails before."""
LOST = frozenset({"NO_CLUSTER", "REGRESSED", "FORKED"})


class StoreRestore:
    """Runs the restore while the broker's metadata are frozen."""

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        session: StoreSession,
        identity: Identity,
        wait_ms: int,
        rng: RandomSource,
        local_state: Callable[[], LocalState],
    ) -> None:
        self._lifecycle = lifecycle
        self._session = session
        self._identity = identity
        self._wait_ms = wait_ms
        self._rng = rng
        self._local_state = local_state
        self._packed: PackedOffer | None = None
        self._packed_for: tuple[object, ...] = ()
        self._complete: tuple[str, int] | None = None
        """The digest of the complete offers, and since when they are complete."""
        self._blocked_digest = ""
        """The digest of offers that need an operator's consent."""
        self._reported: object = None
        self._attempt = 0
        self._adopts = False

    def pause(self) -> None:
        """Abandon the calls under way: no reply will come."""
        self._attempt += 1
        self._adopts = False

    # ------------------------------------------------------------------------------------------------- the start

    def on_refused(self, outcome: StoreOutcome, now_ms: int) -> None:
        """The store does not hold this broker's history, and the metadata are frozen."""
        session = self._session
        if session.image.offset == 0:
            return
        if outcome.code == "SEEDING":
            session.send("seed_status", {}, self._on_status)
        elif outcome.code in LOST:
            self._begin()
        elif outcome.code == "WRONG_INCARNATION":
            self._on_incarnation(outcome.value, now_ms)

    def _begin(self) -> None:
        image = self._session.image
        arguments: dict[str, object] = {"new_seed_nonce": str(self._rng.uuid4()), "incarnation": image.incarnation}
        # The store may have another incarnation than this broker's image: the image's counts.
        self._session.send("seed_begin", arguments | {"incarnation_id": image.incarnation_id}, self._on_begun)

    def _on_begun(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            if outcome.value.get("begun"):
                self._session.say("warning", "metadata-restore-started", metadata_offset=self._session.image.offset)
            self._session.send("seed_status", {}, self._on_status)
        elif outcome.code == "NOT_LOST":
            self._recheck_soon(now_ms)

    def _recheck_soon(self, now_ms: int, wait_ms: int = RECHECK_MS) -> None:
        self._lifecycle.recheck_at(now_ms + wait_ms)

    def _is_new(self, what: object) -> bool:
        if self._reported == what:
            return False
        self._reported = what
        return True

    # ---------------------------------------------------------------------------------------- offering and waiting

    def _on_status(self, outcome: StoreOutcome, now_ms: int) -> None:
        self._recheck_soon(now_ms)
        if outcome.code != "OK":
            return
        session = self._session
        status = SeedStatus.read(outcome.value)
        if not status.seed_nonce or status.cluster_id != session.cluster_id:
            return
        position = (session.image.offset, session.image.chain_hash)
        if self._lifecycle.admitted != position:
            return
        self._offer(status, position)
        if session.node_id not in status.offers:
            return
        missing = status.missing()
        if missing:
            self._complete = None
            nodes = ", ".join(map(str, missing))
            self._lifecycle.awaited = f"it is restored when broker {nodes} has answered too, or by: yak cluster restore"
            if self._is_new(("waiting", tuple(missing))):
                session.say(
                    "warning",
                    "metadata-restore-waiting",
                    missing=nodes,
                    reason=f"broker {nodes} may know more of the metadata and did not answer; "
                    "without an answer: yak cluster restore",
                )
        else:
            self._on_complete(status, now_ms)

    def _offer(self, status: SeedStatus, position: tuple[int, str]) -> None:
        session, identity = self._session, self._identity
        key = (status.seed_nonce, position, session.broker_epoch)
        if self._packed is None or self._packed_for != key:
            local = self._local_state()
            offer = Offer(
                node_id=session.node_id,
                boot_id=identity.boot_id,
                broker_epoch=session.broker_epoch,
                lossy=session.is_lossy if session.broker_epoch else identity.lossy,
                directories=identity.directories,
                host=identity.host,
                port=identity.port,
                rack=identity.rack,
                role=identity.role,
                http_port=identity.http_port,
                image=session.image,
                logs=local.logs,
                hash_chain=local.hash_chain,
            )
            self._packed, self._packed_for = pack(offer), key
            session.say(
                "warning",
                "metadata-restore-offered",
                metadata_offset=session.image.offset,
                topics=len(session.image.topics),
                logs=len(offer.logs),
            )
        packed = self._packed
        if status.digests.get(session.node_id) == packed.digest:
            return
        for number, data in enumerate(packed.chunks):
            arguments: dict[str, object] = {
                "seed_nonce": status.seed_nonce,
                "chunk": number,
                "chunks": len(packed.chunks),
                "data": data,
                "digest": packed.digest,
                "header": packed.header,
            }
            session.send("seed_offer", arguments, _ignore)

    def _on_complete(self, status: SeedStatus, now_ms: int) -> None:
        """All brokers have offered. The first of them goes on after a while; the next ones only if it does not."""
        session = self._session
        if self._complete is None or self._complete[0] != status.offers_digest:
            self._complete = (status.offers_digest, now_ms)
            self._lifecycle.awaited = "all brokers have answered: it is restored in a few seconds"
            session.say(
                "warning",
                "metadata-restore-complete",
                brokers=", ".join(map(str, status.offers)),
                what=f"all known brokers have answered; restoring in {self._wait_ms} ms unless the store's own data return",
            )
        if self._blocked_digest == status.offers_digest:
            return
        turn = list(status.offers).index(session.node_id)
        if now_ms - self._complete[1] >= self._wait_ms + turn * TURN_MS:
            self._read(status, now_ms)

    # ------------------------------------------------------------------------------------------ merge and commit

    def _read(self, status: SeedStatus, now_ms: int) -> None:
        self._recheck_soon(now_ms, BUSY_MS)
        self._attempt += 1
        attempt = self._attempt
        pieces: dict[int, dict[int, str]] = {node_id: {} for node_id in status.offers}
        wanted = [(node_id, chunk) for node_id, count in status.offers.items() for chunk in range(count)]

        def on_piece(node_id: int, chunk: int, outcome: StoreOutcome, answered_ms: int) -> None:
            if attempt != self._attempt:
                return
            if outcome.code != "OK":
                self._attempt += 1
                self._recheck_soon(answered_ms)
                return
            pieces[node_id][chunk] = str(outcome.value["data"])
            if sum(map(len, pieces.values())) == len(wanted):
                self._merge(status, pieces, answered_ms)

        for node_id, chunk in wanted:
            arguments: dict[str, object] = {"seed_nonce": status.seed_nonce, "of_node": node_id, "chunk": chunk}
            self._session.send("seed_read", arguments, lambda o, ms, n=node_id, c=chunk: on_piece(n, c, o, ms))  # type: ignore[misc]

    def _merge(self, status: SeedStatus, pieces: Mapping[int, Mapping[int, str]], now_ms: int) -> None:
        session = self._session
        try:
            offers = [unpack([chunks[number] for number in sorted(chunks)]) for chunks in pieces.values()]
        except BadRecord as error:
            session.say("error", "metadata-restore-failed", reason=str(error))
            self._blocked_digest = status.offers_digest
            self._recheck_soon(now_ms)
            return
        plan = merge(offers, store_before(status), incarnation_id=str(self._rng.uuid4()), now_ms=now_ms)
        session.say(
            "warning",
            "metadata-restore-merged",
            brokers=len(offers),
            topics=len(plan.image.topics),
            partitions=len(plan.fates),
            held=len(plan.quarantined),
            conflicts=len(plan.conflicts),
        )
        if plan.is_automatic:
            self._commit(plan, status, now_ms)
            return
        self._blocked_digest = status.offers_digest
        self._lifecycle.awaited = f"{why_not_automatic(plan)}: see yak cluster restore"
        session.say(
            "error", "metadata-restore-blocked", reason=why_not_automatic(plan), what="see: yak cluster restore"
        )
        self._recheck_soon(now_ms)

    def _commit(self, plan: Plan, status: SeedStatus, now_ms: int) -> None:
        self._recheck_soon(now_ms, BUSY_MS)
        self._attempt += 1
        attempt = self._attempt
        token = str(self._rng.uuid4())
        calls = commit_arguments(plan, status.seed_nonce, status.offers_digest, token)

        def on_slice(is_last: bool, outcome: StoreOutcome, answered_ms: int) -> None:
            if attempt != self._attempt:
                return
            if outcome.code != "OK":
                self._attempt += 1
                self._session.say("warning", "metadata-restore-failed", reason=outcome.code)
                self._recheck_soon(answered_ms)
            elif is_last:
                self._session.say(
                    "warning",
                    "metadata-restore-committed",
                    incarnation=plan.image.incarnation,
                    metadata_offset=plan.image.offset,
                    topics=len(plan.image.topics),
                )
                self._lifecycle.verify()

        for call in calls:
            last = call["step"] == "end"
            self._session.send("seed_commit", call, lambda o, ms, last=last: on_slice(last, o, ms))  # type: ignore[misc]

    # -------------------------------------------------------------------------------------------------- adopting

    def _on_incarnation(self, value: Mapping[str, Any], now_ms: int) -> None:
        """The store has another incarnation of the cluster than this broker's image."""
        session = self._session
        image = session.image
        if int(value["incarnation"]) < image.incarnation:
            self._begin()
            return
        position = (image.offset, image.chain_hash)
        if self._lifecycle.admitted != position:
            self._recheck_soon(now_ms)
            return
        offered = tuple(value.get("took_part") or ())
        took_part = offered == position
        if offered and not took_part:
            self._lifecycle.awaited = (
                f"it was restored with what this broker knew up to record {offered[0]}, but the broker went on in another "
                "history since; to copy it again, empty its data directory"
            )
            return
        if not took_part and image.incarnation_id not in str(value["parents"]).split(","):
            self._lifecycle.awaited = "that incarnation does not come from the one that this broker knows"
            return
        if not took_part and value["is_held_for"]:
            self._lifecycle.awaited = "partitions are quarantined until this broker has answered"
            self._begin()
            return
        is_ours = value["boot_id"] == self._identity.boot_id
        session.broker_epoch = int(value["broker_epoch"]) if is_ours else 0
        self._adopts = True
        event = "metadata-restore-adopted" if took_part else "metadata-restore-joined-late"
        session.say("warning", event, incarnation=value["incarnation"], broker_epoch=session.broker_epoch)
        if value["lost"]:
            session.say(
                "error",
                "metadata-restore-unclean",
                partitions=value["lost"],
                what="an operator accepted that acknowledged records of these may be lost",
            )
        self._lifecycle.begin_adoption(now_ms + BUSY_MS)

    def may_admit(self, record: TailedRecord) -> bool:
        """Whether a snapshot may replace the image: one of another incarnation only while this broker adopts it."""
        image = self._session.image
        is_ours = not image.offset or record.payload.get("incarnation_id") == image.incarnation_id
        return is_ours or self._adopts

    def on_image(self) -> None:
        """Verify again once the image is that of the adopted incarnation."""
        session = self._session
        if self._adopts and session.image.incarnation_id != session.incarnation_id:
            self._adopts = False
            session.incarnation_id = session.image.incarnation_id
            self._packed = self._complete = self._reported = None
            self._lifecycle.end_adoption()


def store_before(status: SeedStatus) -> StoreBefore:
    """The state that the store itself had."""
    return StoreBefore(status.offset, status.incarnation, status.brokers, status.acted, status.parents)


def why_not_automatic(plan: Plan) -> str:
    """Why an operator must decide, in one line."""
    parts = [f"broker {node_id}: {words}" for node_id, words in plan.missing.items()]
    parts += plan.conflicts
    if plan.quarantined:
        first = plan.quarantined[0]
        parts.append(
            f"{len(plan.quarantined)} partitions are quarantined (first {first.topic}-{first.partition}: {first.reason})"
        )
    return "; ".join(parts)


def _ignore(outcome: StoreOutcome, now_ms: int) -> None:
    """Ignore it: the status shows whether it arrived."""
