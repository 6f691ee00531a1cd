"""`yak help SLUG`: every error's word, with what it means, why it comes, and what to try.

A test collects the slugs that the source uses and fails when one is missing here. Two modules hold the texts: errors of
client commands, and errors of brokers and of clusters on this machine.
"""

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


def _all() -> dict[str, Explanation]:
    from yak.commands.error_help_broker import BROKER
    from yak.commands.error_help_client import CLIENT

    assert not BROKER.keys() & CLIENT.keys(), "an error is explained twice"
    return {**CLIENT, **BROKER}


EXPLANATIONS: dict[str, Explanation] = _all()
