"""The states of a classic group, and the one table of moves between them (ClassicGroupState.java)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class ClassicState(enum.Enum):
    """What a classic group is doing; the values are the names that clients see."""

    EMPTY = "Empty"
    """No members: it lives while it has committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The members are asked to join anew, and waited for."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined: the leader's assignment is awaited."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Removed, or no longer coordinated here."""


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
"""Where each state can go next."""
