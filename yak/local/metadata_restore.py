"""A restore of the metadata store by an operator: read the brokers' offers, and write the newest image.

The plan is `yak.cluster.restore`. The displayed plan is the executed plan: the store accepts it only for exactly the
offers that were read.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from yak.cluster.payload import BadRecord
from yak.cluster.restore import RestorePlan, StoreBefore, plan_restore, unpack
from yak.errors import YakError
from yak.local.metadata_log import RedisSource
from yak.metadata_store.restore import offers_digest
from yak.ports.metadata_store import StoreRequest
from yak.server import redis_scripts
from yak.server.redis_store import key_prefix, outcome_of, script_parts

LIVE: Final = "LIVE"
_PREFIX: Final = key_prefix()
_TRIES: Final = (
    "yak cluster restore --redis-url redis://HOST:PORT/0",
    "yak cluster restore --data-dir DIR   that of yak up",
)


@dataclass(frozen=True, slots=True)
class RestoreState:
    """The store's state (`EMPTY`, `LIVE`, `SEEDING`: it waits for a restore), its own content, and the offers."""

    cluster_id: str
    state: str
    before: StoreBefore
    offers: Mapping[int, str] = field(default_factory=dict)

    def plan(self) -> RestorePlan:
        """The plan for these offers. Raises YakError for one that cannot be read."""
        offers = []
        for node_id, packed in self.offers.items():
            try:
                offers.append(unpack(packed))
            except BadRecord as error:
                raise YakError("bad-offer", f"what broker {node_id} offers cannot be read", why=str(error)) from error
        now_ms = int(time.time() * 1000)
        return plan_restore(offers, self.before, incarnation_id=str(uuid.uuid4()), now_ms=now_ms)


class RestoreStore:
    """The store over one connection; use it as a context manager. Every method raises YakError."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        source = RedisSource(url, timeout_s, _TRIES)
        self.name, self._connection = source.name, source.connect()
        self._client: Any = None

    def __enter__(self) -> "RestoreStore":
        self._client = self._connection.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._connection.__exit__(*error)

    def find(self) -> RestoreState:
        """Read the store's state and all offers; changes nothing."""
        cluster = self._client.hgetall(f"{_PREFIX}cluster")
        nodes = sorted(map(int, self._client.smembers(f"{_PREFIX}brokers")))
        registered = {n: self._client.hmget(f"{_PREFIX}b:{n}", "broker_epoch", "boot_id") for n in nodes}
        brokers = {n: (int(epoch), str(boot_id)) for n, (epoch, boot_id) in registered.items() if epoch is not None}
        offers = {int(node_id): packed for node_id, packed in self._client.hgetall(f"{_PREFIX}offers").items()}
        before = StoreBefore(int(cluster.get("mo", 0)), int(cluster.get("incarnation", 0)), brokers)
        return RestoreState(cluster.get("cluster_id", ""), cluster.get("state", "EMPTY"), before, offers)

    def commit(self, found: RestoreState, plan: RestorePlan) -> None:
        self._require("seed_commit", plan.arguments(offers_digest(found.offers)))

    def abort(self, found: RestoreState) -> None:
        """Forget the offers; the store goes on with its own content."""
        self._require("seed_abort", {"offers_digest": offers_digest(found.offers)})

    def _require(self, script: str, arguments: dict[str, object]) -> None:
        _sha, source = redis_scripts.script(script)
        request = StoreRequest(script, {"node_id": -1} | arguments)
        outcome = outcome_of(self._client.eval(source, *script_parts(_PREFIX, request)))
        if outcome.code in ("OFFERS_CHANGED", "SEED_OVER", "NO_CLUSTER"):
            raise YakError(
                "restore-changed",
                "the brokers' offers changed meanwhile; nothing was written",
                why=outcome.code,
                try_=("yak cluster restore",),
            )
        if outcome.code != "OK":
            message = str(outcome.value.get("message", ""))
            raise YakError("restore-refused", f"the metadata store refused: {outcome.code}", why=message)
