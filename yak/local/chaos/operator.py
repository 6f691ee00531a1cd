"""The operator of a metadata store: restores an emptied store from the brokers' copies.

The operator does what `yak cluster restore` does once that is safe, and never accepts a loss.
"""

import time
from typing import Final

from yak.errors import YakError
from yak.local.metadata_restore import LIVE, RestoreStore

_EVERY_SECONDS: Final = 1.0


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

    def look(self) -> None:
        """Restore the store if all brokers have offered and nothing can be lost."""
        now = time.monotonic()
        if self._emptied_at is None or now - self._looked_at < _EVERY_SECONDS:
            return
        self._looked_at = now
        try:
            with RestoreStore(self._redis_url, timeout_s=2.0) as store:
                found = store.look()
                if found.state == LIVE:
                    self.restores.append(f"in {now - self._emptied_at:.1f} s, incarnation {found.before.incarnation}")
                    self._emptied_at = None
                elif found.offers and (plan := found.plan()).is_safe:
                    store.commit(found, plan)
        except YakError:
            return  # the store does not answer now, or a broker offered meanwhile
