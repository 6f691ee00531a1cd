"""The pauses of a partition, from the times at which records arrived. Pure."""

from bisect import bisect_right
from collections.abc import Sequence


def longest_pause(times_s: Sequence[float], from_s: float, until_s: float) -> float | None:
    """Seconds of the longest time between two arrivals that ended after `from_s` and began before `until_s`.

    So the pause of a kill at `from_s` counts from the last arrival before it, and a pause that lasts past `until_s`
    counts as a whole. None when nothing arrived after `from_s`, or nothing before it. `times_s` is in ascending order.
    """
    index = bisect_right(times_s, from_s)
    if index in (0, len(times_s)):
        return None
    longest = 0.0
    while index < len(times_s) and times_s[index - 1] < until_s:
        longest = max(longest, times_s[index] - times_s[index - 1])
        index += 1
    return longest


def longest_pause_within(times_s: Sequence[float], from_s: float, until_s: float) -> float | None:
    """As `longest_pause`, without arrivals after `until_s`: a pause that lasts past it is not counted."""
    return longest_pause(times_s[: bisect_right(times_s, until_s)], from_s, until_s)


def worst(pauses: Sequence[float | None]) -> float | None:
    """The longest of several partitions' pauses; None when one of them never ended, or there are none."""
    if not pauses or any(pause is None for pause in pauses):
        return None
    return max(pause for pause in pauses if pause is not None)
