"""The states of a classic group and their allowed transitions (ClassicGroupState.java)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class ClassicState(enum.Enum):
    """The state of a classic group; the values are the names that clients see."""

    EMPTY = "Empty"
    """No members; the group lives while it has committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for all members to rejoin."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All members have joined; the group waits for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """The group is removed, or coordinated elsewhere."""


MOVES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
"""The allowed next states of each state."""
