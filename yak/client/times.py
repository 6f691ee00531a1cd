"""Durations and times as users type them, and times as YAK prints them.

Durations: `250ms 5s 2m 1h 1d`, or a bare number if the caller gives its unit. Times: ISO-8601 (UTC unless a zone is
given), epoch seconds or milliseconds, `-15m`, `now`. All are integers in milliseconds, times since the epoch.
"""

import re
from datetime import UTC, datetime, tzinfo

from yak.errors import UsageError

_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"
"""So short that it is neither infinite nor over the 4,300 digits that `int` reads."""
_DURATION_PART = re.compile(rf"({_NUMBER})(ms|s|m|h|d|w)", re.ASCII)
_DURATION_MS_MAX = 9_000_000_000_000
"""285 years: a thread cannot wait much longer."""
_MS_PER = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_EPOCH_MS_FROM = 100_000_000_000
"""Epoch numbers from here on are milliseconds: as seconds this would be the year 5138."""


def parse_duration_ms(text: str, *, bare_unit: str | None = None, may_be_iso: bool = False) -> int:
    """Milliseconds of `1m30s`; a bare number has the unit `bare_unit`, and is refused when that is None.

    With `may_be_iso` also of ISO-8601's `PT1M30S`.

    Raises UsageError (`bad-duration`).
    """
    stripped = text.strip().lower()
    if may_be_iso:
        stripped = stripped.removeprefix("p").replace("t", "")
    if bare_unit is not None and re.fullmatch(_NUMBER, stripped, re.ASCII):
        stripped += bare_unit
    parts = _DURATION_PART.findall(stripped)
    duration_ms = sum(round(float(number) * _MS_PER[unit]) for number, unit in parts)
    if duration_ms > _DURATION_MS_MAX:
        raise UsageError("bad-duration", f'"{text}" is too long', why="a duration is at most 285 years")
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise UsageError(
            "bad-duration",
            f'"{text}" is not a duration',
            why="a duration is a number with a unit: ms, s, m, h, d or w"
            + (f"; without one it is in {bare_unit}" if bare_unit is not None else ""),
            try_=("250ms, 5s, 2m, 1h30m",),
        )
    return duration_ms


def parse_time_ms(text: str, *, now_ms: int, zone: tzinfo | None = UTC) -> int:
    """Milliseconds since the epoch. A time without a zone is read in `zone`; None is this machine's zone.

    Raises UsageError (`bad-time`).
    """
    stripped = text.strip()
    if stripped.lower() == "now":
        return now_ms
    if stripped[:1] in ("-", "+") and not stripped[1:].isdigit():
        distance_ms = parse_duration_ms(stripped[1:])
        return now_ms - distance_ms if stripped[0] == "-" else now_ms + distance_ms
    if re.fullmatch(_NUMBER, stripped, re.ASCII):
        number = float(stripped)
        return int(stripped) if number >= _EPOCH_MS_FROM and stripped.isdigit() else round(number * 1000)
    try:
        moment = datetime.fromisoformat(stripped)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UsageError(
            "bad-time",
            f'"{text}" is not a time',
            why="a time is ISO-8601, an epoch in seconds or milliseconds, a distance from now, or now",
            try_=("2026-11-20T12:00:00Z, 1795867200, -15m, now",),
        ) from None


def format_time(timestamp_ms: int, zone: tzinfo | None = UTC) -> str:
    """ISO-8601 with milliseconds and zone: `2026-11-20T12:03:04.912Z`. Times outside years 1 to 9999 stay numbers."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    moment = moment.replace(microsecond=timestamp_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
