"""Somebody who looks after the metadata store: what it lost is brought back from what the brokers know.

Brokers do it themselves when all of them have answered. Where they cannot, this does what `yak cluster restore` does, and never
accepts a loss.
"""

import time
from typing import Final

from yak.errors import YakError
from yak.local.metadata_restore import RestoreStore

_EVERY_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 20.0
_LIVE: Final = "LIVE"


class Operator:
    """Call `look` often; it does something about once a second, and only after `store_was_emptied`."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._emptied_at: float | None = None
        self._looked_at = 0.0
        self.restores: list[str] = []
        """Each restore that was completed, in words."""

    @property
    def is_waiting(self) -> bool:
        """Whether the store has not got its history back."""
        return self._emptied_at is not None

    def store_was_emptied(self) -> None:
        """From now on look until it has its history again."""
        self._emptied_at = self._emptied_at or time.monotonic()

    def look(self, *, may_commit: bool) -> None:
        """See whether the history is back, and bring it back when nobody else does; `may_commit`: all brokers run."""
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
        except YakError:
            return  # it does not answer now, or its brokers were faster
