"""The tests that may fail beside others if they pass alone: `tests/flaky.toml`."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

LISTED = Path(__file__).with_name("flaky.toml")


def load(path: Path = LISTED) -> dict[str, str]:
    """The reason by the pattern of test ids. Raises ValueError if one has no reason."""
    reasons = tomllib.loads(path.read_text())
    for pattern, reason in reasons.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{path.name}: {pattern!r} has no reason")
    return reasons


def reason(test: str, reasons: Mapping[str, str]) -> str | None:
    """Why this test may be flaky."""
    return next((reasons[each] for each in reasons if _fits(each, test)), None)


def unused(reasons: Mapping[str, str], tests: Iterable[str]) -> list[str]:
    """The patterns that fit no test."""
    ids = [*tests] if reasons else []
    return [each for each in reasons if not any(_fits(each, test) for test in ids)]


def _fits(pattern: str, test: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), test) is not None
