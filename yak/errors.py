"""Every error YAK raises on purpose, by whose fault it is.

    YakError                    carries a slug, what happened, why, and what to try; each kind knows its exit code
    ├── UsageError              the caller asked for something that cannot be (exit 2)
    ├── StartRefused            a broker will not start on what it found; nothing was touched (exit 1)
    ├── Unreachable             no broker, or no metadata store, answered (exit 3)
    ├── CheckFailed             a check that was asked for did not hold (exit 4)
    └── NothingInTime           the time given passed with nothing to show (exit 5)
    PeerError                   the peer's mistake on one item: answered with a Kafka error code
    ProtocolViolation           the peer's bytes make no sense: the connection is closed
    LogDirectoryFailure         the disk's fault: that log directory goes offline; the broker halts with the last one (exit 7)
    FailStop                    our own fault, in the middle of a change of state: the broker ends at once (exit 6)

Any other exception in the core is a bug of ours too. While one request is served it ends that request's connection
(`Broker.step` says where that border is); everywhere else it becomes a FailStop. Shells turn YakError into three lines for a person
(`yak.commands.output`), and PeerError into an error code for a client (`yak.broker`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

__all__ = [
    "CheckFailed",
    "ErrorCode",
    "FailStop",
    "LogDirectoryFailure",
    "NothingInTime",
    "PeerError",
    "ProtocolViolation",
    "StartRefused",
    "Unreachable",
    "UsageError",
    "YakError",
]


def __getattr__(name: str) -> object:
    """Import kio's ErrorCode when it is first asked for: the client commands use this module and never kio."""
    if name == "ErrorCode":
        from kio.schema.errors import ErrorCode

        globals()["ErrorCode"] = ErrorCode
        return ErrorCode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class YakError(Exception):
    """What happened, why, and what to try, under a slug that never changes.

    `try_` holds one line for each thing to try; the first can be pasted into a shell.
    """

    exit_code = 1

    def __init__(self, code: str, message: str, *, why: str = "", try_: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.why = why
        self.try_ = try_


class UsageError(YakError):
    """The request itself is wrong: a flag, an address, a port in use."""

    exit_code = 2


class StartRefused(YakError):
    """A broker found something it must not touch: another node's data, a held lock, a bad directory."""

    exit_code = 1


class Unreachable(YakError):
    """Nobody answered, or authentication failed."""

    exit_code = 3


class CheckFailed(YakError):
    """A check did not hold."""

    exit_code = 4


class NothingInTime(YakError):
    """The time-out passed with nothing to show."""

    exit_code = 5


class PeerError(Exception):
    """A request item that a client got wrong, or that cannot be served now, as a Kafka error code with words."""

    def __init__(self, error_code: "ErrorCode", message: str = "") -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code
        self.message = message


class ProtocolViolation(Exception):
    """The connection's bytes are not the protocol; the connection is closed with this reason in the log."""


class FailStop(BaseException):
    """An unexpected exception, its `__cause__`, left replicated state half changed: nothing may act on that state.

    `what` names the step or the function that failed. The process ends without an orderly stop, as after `kill -9`, and the
    next start reads the state from the disk and the metadata store. It is no `Exception`, so that no handler that serves
    one request takes it for its own.
    """

    exit_code = 6

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class LogDirectoryFailure(Exception):
    """A write, read or sync failed in one log directory; it goes offline until restart, and is never retried.

    After EIO from fsync the page may be clean and gone, so a second fsync that succeeds proves nothing
    (PostgreSQL's "fsync errors" page).
    """

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(f"{directory}: {error}")
        self.directory = directory
        self.error = error
