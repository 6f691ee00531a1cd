"""Which functions change replicated state: an unexpected exception in one of them stops the broker.

The core has one rule for its own bugs, by what was under way (crash-only software; Kafka's FaultHandler in
ProcessTerminatingFaultHandler does the same for metadata):

    serving one request         the exception ends that request's connection, and everything else goes on
    changing replicated state   FailStop: the broker ends at once, and no effect of that step is carried out

In `Broker.step` everything is of the second kind but what runs inside `Broker.serve`, where a request's handler, or the
completion of a delayed operation, works for one client. A handler that changes the state of a partition, a group or the
metadata does so in a function that is marked with `changes_state`, and that is of the second kind again.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from yak.errors import FailStop, LogDirectoryFailure, PeerError, ProtocolViolation

P = ParamSpec("P")
R = TypeVar("R")


def changes_state(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that changes replicated state: what it does not raise on purpose becomes a FailStop.

    It may still raise PeerError, ProtocolViolation and LogDirectoryFailure: it promises that what it changed is whole then.
    """

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (PeerError, ProtocolViolation, LogDirectoryFailure):
            raise
        except Exception as error:
            raise FailStop(function.__qualname__) from error

    return guarded
