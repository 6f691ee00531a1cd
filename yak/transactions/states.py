"""The states of a transaction, and the moves between them (Kafka's TransactionState.java)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """A state; its number is the one of the records in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in ListTransactions and DescribeTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, PREPARE_EPOCH_FENCE = (
    TransactionState
)

PREPARED: Final = (PREPARE_COMMIT, PREPARE_ABORT)
"""The end is decided, and markers are being written."""
AT_REST: Final = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""No transaction is open, and none is being ended. Only these expire."""
BY_LABEL: Final[Mapping[str, TransactionState]] = {state.label: state for state in TransactionState}

MOVES: Final[Mapping[TransactionState, tuple[TransactionState, ...]]] = {
    EMPTY: AT_REST,
    ONGOING: (ONGOING, *AT_REST),
    PREPARE_COMMIT: (ONGOING,),
    # A producer with protocol 2 may abort a transaction that has no partition yet.
    PREPARE_ABORT: (ONGOING, *AT_REST),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    DEAD: AT_REST,
    # Kafka's state between the decision to fence a producer and PREPARE_ABORT. Here that is one decision, so no
    # transaction is ever in it; clients may still filter by its name.
    PREPARE_EPOCH_FENCE: (),
}
"""From which states each state is entered."""
