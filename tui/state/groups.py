"""Consumer groups between two requests: their list, and the trend of their lag. Pure: times are given."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import correlation, linear_regression
from typing import Any, Final

from yak.view.lag import total_lag

WINDOW_MS: Final = 60_000
"""The period that a trend covers."""
_SAMPLES_MAX: Final = 64
_LEAST_MS: Final = 6_000
_FIT_LEAST: Final = 0.5
"""The share of the lag's variance that a straight line must explain for its slope to count. Commits come in steps, so
the lag of a group that keeps up goes up and down."""


class Trend:
    """The lag over the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=_SAMPLES_MAX)
        self._since_ms = 0

    def begin_again(self, time_ms: int) -> None:
        """Ignore earlier samples in the slope: the lag has jumped."""
        self._since_ms = time_ms

    def note(self, time_ms: int, lag: int | None) -> None:
        """Add a sample. None (nothing is committed) is ignored."""
        if lag is None:
            self._seen.clear()
        elif not self._seen or time_ms > self._seen[-1][0]:
            self._seen.append((time_ms, lag))

    def values(self, now_ms: int, width: int) -> list[float]:
        """The lag at the end of each of `width` equal parts of the minute, as far back as it is known."""
        seen = list(self._seen)
        if not seen or width < 1:
            return []
        found: list[float] = []
        for part in range(width):
            end_ms = now_ms - WINDOW_MS + WINDOW_MS * (part + 1) // width
            before = [lag for time_ms, lag in seen if time_ms <= end_ms]
            if before:
                found.append(float(before[-1]))
        return found or [float(seen[-1][1])]

    def per_second(self, now_ms: int) -> float | None:
        """The slope in records per second, negative if the lag falls; None if it is unknown or goes up and down."""
        since_ms = max(self._since_ms, now_ms - WINDOW_MS)
        seen = [(time_ms / 1000, lag) for time_ms, lag in self._seen if time_ms >= since_ms]
        if len(seen) < 3 or seen[-1][0] - seen[0][0] < _LEAST_MS / 1000:
            return None
        times_s, lags = zip(*seen, strict=True)
        if len(set(lags)) == 1:
            return 0.0
        return linear_regression(times_s, lags).slope if correlation(times_s, lags) ** 2 >= _FIT_LEAST else None


@dataclass(frozen=True, slots=True)
class Unread:
    """The first unread record: the committed offset it was found at, its timestamp, and when it was found."""

    committed: int
    timestamp_ms: int
    read_ms: int

    def until_ms(self, committed: int | None, now_ms: int) -> int:
        """The end of the record's age: if the group has committed since, the next unread record is younger."""
        return now_ms if committed == self.committed else self.read_ms


@dataclass(slots=True)
class Group:
    """One group. `said` is the answer of `/api/groups/NAME`, None until it arrives; `why` is why the request failed."""

    name: str
    type: str = ""
    state: str = ""
    coordinator: int | None = None
    said: Mapping[str, Any] | None = None
    why: str = ""
    trend: Trend = field(default_factory=Trend)

    @property
    def lag(self) -> int | None:
        """Unread records in all partitions; None if nothing is committed, or there is no answer yet."""
        return None if self.said is None else self.said["lag"]

    @property
    def members(self) -> int | None:
        """The number of members; None until there is an answer."""
        return None if self.said is None else len(self.said["members"])

    def update(self, said: Mapping[str, Any], now_ms: int) -> None:
        """Take its coordinator's answer."""
        if self.said is not None and _is_moved_back(self.said, said):
            self.trend.begin_again(now_ms)
        self.said, self.why = said, ""
        self.type, self.state, self.coordinator = said["type"], said["state"], said["coordinator"]
        self.trend.note(now_ms, said["lag"])

    def eta_ms(self, now_ms: int) -> float | None:
        """Milliseconds until the lag is 0 at the present rate; None if it does not fall, or is unknown."""
        rate = self.trend.per_second(now_ms)
        return self.lag / -rate * 1000 if self.lag and rate is not None and rate < 0 else None

    def is_growing(self, now_ms: int) -> bool:
        rate = self.trend.per_second(now_ms)
        return bool(self.lag) and rate is not None and rate > 0


def _is_moved_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a committed offset is lower than before: it was reset."""
    known = {(each["topic"], each["partition"]): each["committed"] for each in before["partitions"]}
    found = ((known.get((each["topic"], each["partition"])), each["committed"]) for each in after["partitions"])
    return any(old is not None and new is not None and new < old for old, new in found)


def group_on_topic(topic: str, answer: Mapping[str, Any], known: Group | None, now_ms: int) -> Group | None:
    """A group from `/api/groups/GROUP` with its partitions of one topic only; None if it does not read the topic."""
    partitions = [each for each in answer["partitions"] if each["topic"] == topic]
    members = [
        each
        for each in answer["members"]
        if topic in (each["topics"] or ()) or any(part["topic"] == topic for part in each["assignment"] or ())
    ]
    if not partitions and not members:
        return None
    group = known or Group(answer["group"])
    lag = total_lag(each["lag"] for each in partitions)
    group.update({**answer, "partitions": partitions, "members": members, "lag": lag}, now_ms)
    return group


class Groups:
    """All groups of a cluster, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Group] = {}
        self.is_listed = False
        self.silent: list[Mapping[str, Any]] = []

    def listed(self, answer: Mapping[str, Any]) -> None:
        """Take `/api/groups`. Groups that are missing in it are removed, unless a broker did not answer."""
        self.is_listed = True
        self.silent = list(answer["silent"])
        names = {each["group"] for each in answer["groups"]}
        if not self.silent:
            self.by_name = {name: group for name, group in self.by_name.items() if name in names}
        for each in answer["groups"]:
            group = self.by_name.setdefault(each["group"], Group(each["group"]))
            group.type, group.state, group.coordinator = each["type"], each["state"], each["coordinator"]

    def update(self, name: str, said: Mapping[str, Any], now_ms: int) -> None:
        """Take `/api/groups/NAME`."""
        self.by_name.setdefault(name, Group(name)).update(said, now_ms)

    def failed(self, name: str, why: str) -> None:
        """Note why a group's request failed."""
        if name in self.by_name:
            self.by_name[name].why = why
