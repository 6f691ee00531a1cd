"""A rate over the latest samples (Kafka's Rate over the WindowedSum of a SampledStat)."""

from __future__ import annotations

from yak.quotas.quota_types import THROTTLE_MS_MAX


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """What was recorded, per second. There is one more sample than configured: the oldest is in the window in part."""

    __slots__ = ("_current", "_samples", "_samples_max", "_window_ms")

    def __init__(self, samples: int, window_ms: int, now_ms: int) -> None:
        self._samples_max, self._window_ms = samples, window_ms
        self._samples = [_Sample(now_ms)]
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count a value, which is negative to take an earlier one back."""
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._samples_max + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> float:
        """The rate per second."""
        window_ms = self.window_ms(now_ms)
        return sum(sample.value for sample in self._samples) * 1000 / window_ms if window_ms else 0.0

    def window_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured.

        Samples that are missing, because nothing was recorded, count as samples of nothing.
        """
        expire_ms = self._samples_max * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expire_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = self._samples_max - 1 - elapsed_ms // self._window_ms
        return elapsed_ms + max(0, missing) * self._window_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time without records after which the rate is at the limit, `THROTTLE_MS_MAX` at most (KIP-13).

        With the rate O over the window W, and the limit T, it is X in O * W / (W + X) = T (Kafka's QuotaUtils).
        """
        rate = self.measure(now_ms)
        if rate <= limit:
            return 0
        return int(min((rate - limit) / limit * self.window_ms(now_ms) + 0.5, THROTTLE_MS_MAX))
