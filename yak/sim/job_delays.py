"""How long what a broker does beside its turns takes."""

from collections.abc import Mapping
from typing import Final

from yak.sim.dice import SeededDice

MARKS_US: Final = 500
"""From the moment a broker is ready until it noted under which start of the machine its directories are used."""


def job_delay_us(dice: SeededDice, kind: str, ordered_us: Mapping[str, int]) -> int:
    """Until a job of this kind runs: as `ordered_us` has it, else as the dice say; one in twenty is slow."""
    if kind in ordered_us:
        return ordered_us[kind]
    slow = dice.chance(5)
    if kind in ("flush", "cut"):
        return dice.between(100, 200_000 if slow else 4_000)
    return dice.between(50, 50_000 if slow else 1_000)
