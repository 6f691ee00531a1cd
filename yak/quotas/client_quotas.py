"""The use of each quota by each client, and the time for which a client over its quota must wait.

Rates are measured over `quota.window.num` samples of `quota.window.size.seconds`, as by Kafka's ClientQuotaManager. A
client that is idle for an hour is forgotten, as there, and beyond `QUOTA_CLIENTS_MAX` the one that is idle for longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.limits import QUOTA_CLIENTS_MAX, QUOTA_NAME_LENGTH_MAX
from yak.quotas.quota_table import AppliedQuota, Key, QuotaTable
from yak.quotas.quota_types import QuotaType
from yak.quotas.rate import Rate
from yak.quotas.token_bucket import TokenBucket

IDLE_MS_MAX: Final = 3_600_000
"""Kafka's INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS."""
_BYTES_MAX: Final = 2**31 - 1

M = TypeVar("M", Rate, TokenBucket)
_Name: TypeAlias = tuple[QuotaType, Key]


class _Meters(Generic[M]):
    """Rates or buckets by quota and client, least recently used first."""

    def __init__(self, context: Context, make: Callable[[AppliedQuota], M]) -> None:
        self._context = context
        self._make: Callable[[AppliedQuota], M] = make
        self._meters: OrderedDict[_Name, M] = OrderedDict()
        self._used_ms: dict[_Name, int] = {}

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, quota: QuotaType, applied: AppliedQuota) -> M:
        """The meter of those that share this quota."""
        user, client_id = (name[:QUOTA_NAME_LENGTH_MAX] if isinstance(name, str) else name for name in applied.shared)
        name = quota, (user, client_id)
        meter = self._meters.get(name)
        now_ms = self._context.clock.now_ms
        if meter is None:
            if len(self._meters) >= QUOTA_CLIENTS_MAX:
                self._forget_oldest()
            meter = self._meters[name] = self._make(applied)
            self._context.within(self, IDLE_MS_MAX, self._forget_idle)
        else:
            self._meters.move_to_end(name)
        self._used_ms[name] = now_ms
        return meter

    def _forget_oldest(self) -> None:
        name, _meter = self._meters.popitem(last=False)
        del self._used_ms[name]

    def _forget_idle(self) -> None:
        now_ms = self._context.clock.now_ms
        while self._meters:
            due_ms = self._used_ms[next(iter(self._meters))] + IDLE_MS_MAX
            if due_ms > now_ms:
                self._context.timers.arm(self, due_ms, self._forget_idle)
                return
            self._forget_oldest()


class MutationQuota:
    """The controller mutation quota of a client during one request (Kafka's ControllerMutationQuota).

    A strict one refuses mutations while the quota is exceeded, and no others. A permissive one refuses none: the client
    waits after its answer.
    """

    def __init__(self, context: Context, bucket: TokenBucket, limit: float, *, is_strict: bool) -> None:
        self._context, self._bucket, self._limit, self._is_strict = context, bucket, limit, is_strict
        self._throttled_until_ms = 0

    def record(self, partitions: int) -> None:
        """Count created or deleted partitions. Raises PeerError(THROTTLING_QUOTA_EXCEEDED)."""
        bucket, limit, now_ms = self._bucket, self._limit, self._context.clock.now_ms
        if self._is_strict:
            throttle_ms = bucket.throttle_ms(limit, now_ms)
            if throttle_ms:
                self._throttled_until_ms = now_ms + throttle_ms
                raise PeerError(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
        bucket.take(partitions, limit, now_ms)
        if not self._is_strict:
            self._throttled_until_ms = now_ms + bucket.throttle_ms(limit, now_ms)

    @property
    def is_exceeded(self) -> bool:
        """Whether mutations were refused: then the client knows, and its channel is not muted."""
        return self._is_strict and self._throttled_until_ms > 0

    def throttle_ms(self) -> int:
        """The time for which the client should wait from now on."""
        return max(0, self._throttled_until_ms - self._context.clock.now_ms)


class ClientQuotas:
    """The quotas in force and their use."""

    def __init__(self, context: Context) -> None:
        config = context.config
        self._context = context
        self._samples, self._window_ms = config.quota_window_num, config.quota_window_size_seconds * 1000
        self._table = QuotaTable({})
        self._rates: _Meters[Rate] = _Meters(context, self._new_rate)
        burst_seconds = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._buckets: _Meters[TokenBucket] = _Meters(
            context, lambda applied: TokenBucket(burst_seconds, applied.limit, context.clock.now_ms)
        )
        self.set_quotas(context.image.quotas)

    def _new_rate(self, _applied: AppliedQuota) -> Rate:
        return Rate(self._samples, self._window_ms, self._context.clock.now_ms)

    def set_quotas(self, quotas: Mapping[str, Mapping[str, str]]) -> None:
        """Put the quotas of an image in force. What clients used stays counted."""
        self._table = QuotaTable(quotas)

    def __bool__(self) -> bool:
        return bool(self._table)

    def __len__(self) -> int:
        """How many uses of quotas are remembered."""
        return len(self._rates) + len(self._buckets)

    def has(self, quota: QuotaType) -> bool:
        """Whether any user or client id has such a quota."""
        return self._table.has(quota)

    def record(self, quota: QuotaType, user: str, client_id: str, value: float) -> int:
        """Count what a client used; returns the ms for which it must wait."""
        applied = self._table.find(quota, user, client_id)
        return 0 if applied is None else self._record(quota, applied, value)

    def _record(self, quota: QuotaType, applied: AppliedQuota, value: float) -> int:
        rate, now_ms = self._rates.of(quota, applied), self._context.clock.now_ms
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(applied.limit, now_ms)
        if quota in (QuotaType.REQUEST, QuotaType.CONNECTION):
            # ClientRequestQuotaManager and ConnectionQuotas: at most one sample
            throttle_ms = min(throttle_ms, self._window_ms)
        return throttle_ms

    def fetch_bytes_max(self, user: str, client_id: str) -> int:
        """The bytes of a fetch that a client may get at all: a larger one would always exceed its quota."""
        applied = self._table.find(QuotaType.FETCH, user, client_id)
        if applied is None:
            return _BYTES_MAX
        return min(_BYTES_MAX, int(applied.limit * (self._samples - 1) * self._window_ms / 1000))

    def mutations(self, user: str, client_id: str, *, is_strict: bool) -> MutationQuota | None:
        """The controller mutation quota of a client for one request; None for no limit."""
        applied = self._table.find(QuotaType.CONTROLLER_MUTATION, user, client_id)
        if applied is None:
            return None
        bucket = self._buckets.of(QuotaType.CONTROLLER_MUTATION, applied)
        return MutationQuota(self._context, bucket, applied.limit, is_strict=is_strict)

    def connection(self, ip: str) -> int:
        """Count a connection of an ip; returns the ms after which it must be closed, 0 if it may stay.

        A connection that is closed does not count (Kafka's ConnectionQuotas).
        """
        limit = self._table.limit_of_ip(ip)
        if limit is None:
            return 0
        applied = AppliedQuota(limit, (ip, ip))
        throttle_ms = self._record(QuotaType.CONNECTION, applied, 1)
        if throttle_ms:
            self._record(QuotaType.CONNECTION, applied, -1)
        return throttle_ms
