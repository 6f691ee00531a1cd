"""Marks the functions that change replicated state: an unexpected exception in one of them stops the broker.

The effect of a bug in the core depends on the work under way (crash-only software; Kafka's
ProcessTerminatingFaultHandler does the same for metadata):

    serving one request         the exception closes that request's connection, and everything else goes on
    changing replicated state   FailStop: the broker ends at once, and no effect of that step is carried out

All work of `Broker.step` is of the second kind, except inside `Broker.serve`: there a request's handler, or the
completion of a delayed operation, works for one client. A handler changes the state of a partition, a group or the
metadata only in functions marked with `changes_state`, which are of the second kind again.

A mark costs nothing while nothing fails, since some of these functions run once for each batch: `Broker.serve` looks for
them in the traceback.
"""

from collections.abc import Callable
from types import CodeType
from typing import ParamSpec, TypeVar

from yak.errors import FailStop, LogDirectoryFailure, PeerError, ProtocolViolation

P = ParamSpec("P")
R = TypeVar("R")

_marked: set[CodeType] = set()


def changes_state(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that changes replicated state: an unexpected exception that leaves it is a FailStop.

    It may raise PeerError, ProtocolViolation and LogDirectoryFailure if the state is consistent when it does. Its callers
    must not catch any other exception.
    """
    _marked.add(function.__code__)
    return function


def raise_if_state_changed(error: Exception) -> None:
    """Raise FailStop if this unexpected exception left a marked function."""
    if isinstance(error, PeerError | ProtocolViolation | LogDirectoryFailure):
        return
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code in _marked:
            raise FailStop(code.co_qualname) from error
        traceback = traceback.tb_next
