"""A token bucket (Kafka's TokenBucket, KIP-599): it fills at the rate of the quota, up to a burst."""

from __future__ import annotations

from yak.quotas.quota_types import THROTTLE_MS_MAX


class TokenBucket:
    """Tokens of one client; below 0 the quota is exceeded."""

    __slots__ = ("_burst_seconds", "_filled_ms", "_tokens")

    def __init__(self, burst_seconds: float, limit: float, now_ms: int) -> None:
        self._burst_seconds = burst_seconds
        """The bucket holds what the rate gives in this time."""
        self._tokens = burst_seconds * limit
        self._filled_ms = now_ms

    def take(self, tokens: float, limit: float, now_ms: int) -> None:
        """Take tokens, more than there are if need be."""
        self._tokens = self.measure(limit, now_ms) - tokens

    def measure(self, limit: float, now_ms: int) -> float:
        """The tokens that the bucket has at a time."""
        filled = self._tokens + limit * (now_ms - self._filled_ms) / 1000
        self._tokens, self._filled_ms = min(self._burst_seconds * limit, filled), now_ms
        return self._tokens

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time until no token is missing, `THROTTLE_MS_MAX` at most."""
        missing = -self.measure(limit, now_ms)
        return 0 if missing <= 0 else int(min(missing / limit * 1000 + 0.5, THROTTLE_MS_MAX))
