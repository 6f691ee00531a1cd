"""Marks the functions that change replicated state: an unexpected exception in one of them stops the broker.

The effect of a bug in the core depends on the work under way (crash-only software; Kafka's
ProcessTerminatingFaultHandler does the same for metadata):

    serving one request         the exception closes that request's connection, and everything else goes on
    changing replicated state   FailStop: the broker ends at once, and no effect of that step is carried out

All work of `Broker.step` is of the second kind, except inside `Broker.serve`: there a request's handler, or the
completion of a delayed operation, works for one client. A handler changes the state of a partition, a group or the
metadata only in functions marked with `changes_state`, which are of the second kind again.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from yak.errors import FailStop, LogDirectoryFailure, PeerError, ProtocolViolation

P = ParamSpec("P")
R = TypeVar("R")


def changes_state(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that changes replicated state: an unexpected exception in it becomes a FailStop.

    It may raise PeerError, ProtocolViolation and LogDirectoryFailure if the state is consistent when it does.
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
