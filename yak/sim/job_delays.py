"""The durations of a broker's background work."""

from collections.abc import Mapping
from typing import Final

from yak.sim.dice import SeededDice

MARKS_US: Final = 500
"""From a broker's readiness until it has recorded the machine's boot id in its directories."""


def job_delay_us(dice: SeededDice, kind: str, ordered_us: Mapping[str, int]) -> int:
    """The delay of a job: from `ordered_us`, or else random; one in twenty is slow."""
    if kind in ordered_us:
        return ordered_us[kind]
    slow = dice.chance(5)
    if kind in ("flush", "cut"):
        return dice.between(100, 200_000 if slow else 4_000)
    return dice.between(50, 50_000 if slow else 1_000)
