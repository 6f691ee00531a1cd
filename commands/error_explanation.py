"""One entry of `yak help SLUG`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, why such a thing happens, and what to try, in general words."""

    what: str
    why: str
    try_: tuple[str, ...]


def explain(what: str, why: str, *try_: str) -> Explanation:
    """An explanation, written short."""
    return Explanation(what, why, try_)
