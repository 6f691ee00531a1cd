"""The operator of a metadata store: restores an emptied store from the brokers' copies.

Brokers restore it themselves once all of them have made an offer. When they cannot, the operator does what
`yak cluster restore` does, and never accepts a loss.
"""

import time
from typing import Final

from yak.errors import YakError
from yak.local.metadata_restore import RestoreStore

_EVERY_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 20.0
_LIVE: Final = "LIVE"


class Operator:
    """Call `look` often; it acts about once a second, and only after `store_was_emptied`."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._emptied_at: float | None = None
        self._looked_at = 0.0
        self.restores: list[str] = []
        """A description of each completed restore."""

    @property
    def is_waiting(self) -> bool:
        """Whether the store has not got its history back."""
        return self._emptied_at is not None

    def store_was_emptied(self) -> None:
        """Watch the store from now on until it has its history again."""
        self._emptied_at = self._emptied_at or time.monotonic()

    def look(self, *, may_commit: bool) -> None:
        """Check whether the history is back; after a timeout, restore it if `may_commit`, which means that all brokers
        run."""
        now = time.monotonic()
        if self._emptied_at is None or now - self._looked_at < _EVERY_SECONDS:
            return
        self._looked_at = now
        try:
            with RestoreStore(self._redis_url, timeout_s=2.0) as store:
                found = store.look()
                if found.state == _LIVE:
                    self.restores.append(f"in {now - self._emptied_at:.1f} s, incarnation {found.incarnation}")
                    self._emptied_at = None
                elif found.offers and may_commit and now - self._emptied_at > _PATIENCE_SECONDS:
                    plan = found.plan(accept_loss=False)
                    if not plan.conflicts:
                        store.commit(found, plan)
                        # brokers that were missing begin another restore: give all of them the time to answer
                        self._emptied_at = now
        except YakError:
            return  # the store does not answer now, or the brokers were faster
