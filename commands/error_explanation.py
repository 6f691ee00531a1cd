"""One entry of `yak help SLUG`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, its usual causes, and what to try."""

    what: str
    why: str
    try_: tuple[str, ...]


def explain(what: str, why: str, *try_: str) -> Explanation:
    """Shorthand for an `Explanation`."""
    return Explanation(what, why, try_)
