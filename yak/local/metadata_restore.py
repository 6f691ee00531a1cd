"""A restore of the metadata store by an operator: read the brokers' offers, merge them, write the result.

The merge and the calls are the brokers' own (`yak.cluster.restore`, `yak.cluster.restore_commit`), so the displayed
plan is the executed plan: the store accepts it only for exactly the offers that were read.
"""

import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

from yak.cluster.payload import BadRecord
from yak.cluster.restore import Plan, merge
from yak.cluster.restore_commit import commit_arguments
from yak.cluster.restore_offer import Offer, unpack
from yak.cluster.restore_status import SeedStatus
from yak.cluster.store_restore import store_before
from yak.errors import YakError
from yak.local.metadata_log import RedisSource
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.server import redis_scripts
from yak.server.redis_store import key_prefix, outcome_of, script_parts

CLUSTER_KEY: Final = f"{key_prefix()}cluster"
_TRIES: Final = (
    "yak cluster restore --redis-url redis://HOST:PORT/0",
    "yak cluster restore --data-dir DIR   that of yak up",
)


@dataclass(frozen=True, slots=True)
class Found:
    """The store's state (`EMPTY`, `LIVE`, `SEEDING`), and the status and offers of a restore under way."""

    cluster_id: str
    state: str
    incarnation: int
    status: SeedStatus
    offers: tuple[Offer, ...] = ()

    def plan(self, *, accept_loss: bool) -> Plan:
        """The merged plan of the offers."""
        new_id, now_ms = str(uuid.uuid4()), int(time.time() * 1000)
        return merge(
            self.offers, store_before(self.status), incarnation_id=new_id, now_ms=now_ms, accept_loss=accept_loss
        )


class RestoreStore:
    """The store over one connection; use it as a context manager. Every method raises YakError."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._source = RedisSource(url, timeout_s, _TRIES)
        self._client: Any = None

    def __enter__(self) -> "RestoreStore":
        self._client = self._source.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def name(self) -> str:
        """The address without a password."""
        return self._source.name

    def look(self) -> Found:
        """Read the status and all offers; changes nothing."""
        cluster = self._client.hgetall(CLUSTER_KEY)
        status = SeedStatus.read(self._require("seed_status").value)
        offers = tuple(self._offer(status, node_id) for node_id in status.offers)
        state = cluster.get("state", "EMPTY")
        return Found(cluster.get("cluster_id", ""), state, int(cluster.get("incarnation", 0)), status, offers)

    def commit(self, found: Found, plan: Plan) -> None:
        """Write the plan to the store."""
        token = str(uuid.uuid4())
        for call in commit_arguments(plan, found.status.seed_nonce, found.status.offers_digest, token):
            self._require("seed_commit", **call)

    def abort(self, found: Found) -> None:
        """Abort the restore."""
        self._require("seed_abort", seed_nonce=found.status.seed_nonce)

    def _offer(self, status: SeedStatus, node_id: int) -> Offer:
        pieces = [
            str(self._require("seed_read", seed_nonce=status.seed_nonce, of_node=node_id, chunk=number).value["data"])
            for number in range(status.offers[node_id])
        ]
        try:
            return unpack(pieces)
        except BadRecord as error:
            raise YakError("bad-offer", f"what broker {node_id} offers cannot be read", why=str(error)) from error

    def _require(self, script: str, **arguments: object) -> StoreOutcome:
        outcome = self._call(StoreRequest(script, {"node_id": -1} | arguments))
        if outcome.code == "OK":
            return outcome
        if outcome.code in ("OFFERS_CHANGED", "SEED_OVER"):
            raise YakError(
                "restore-changed",
                "what brokers offer changed meanwhile; nothing was written",
                why=outcome.code,
                try_=("yak cluster restore",),
            )
        if outcome.code == "HALF_DONE":
            raise YakError(
                "restore-half-done",
                "the restore cannot be given up any more",
                why="the new state is being written; a writer that died is followed by another",
                try_=("yak cluster restore",),
            )
        words = str(outcome.value.get("message", ""))
        raise YakError("restore-refused", f"the metadata store refused: {outcome.code}", why=words)

    def _call(self, request: StoreRequest) -> StoreOutcome:
        import redis

        _sha, source = redis_scripts.script(request.script)
        try:
            return outcome_of(self._client.eval(source, *script_parts(key_prefix(), request)))
        except redis.RedisError as error:
            raise YakError("log-source", f"the metadata store at {self.name} failed", why=str(error)) from error
