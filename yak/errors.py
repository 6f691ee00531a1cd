"""The errors that YAK raises on purpose, by cause.

    YakError                    a slug, a message, the reason and remedies; each kind has its exit code
    ├── UsageError              a wrong request or flag (exit 2)
    ├── StartRefused            a broker refuses to start on the data it found; it changed nothing (exit 1)
    ├── Unreachable             no broker, or no metadata store, answered (exit 3)
    ├── CheckFailed             a requested check failed (exit 4)
    └── WaitTimeout             the time-out passed without a result (exit 5)
    PeerError                   one item of a request fails: answered with a Kafka error code
    ProtocolViolation           the peer's bytes violate the protocol: the connection is closed
    LoginRefused                a client did not prove who it is: SASL_AUTHENTICATION_FAILED, and the connection is closed
    LogDirectoryFailure         a disk failed: the log directory goes offline; the broker halts with the last one (exit 7)
    FailStop                    a bug in YAK, during a change of state: the broker ends at once (exit 6)

Any other exception in the core is a bug in YAK too. While one request is served it closes that request's connection
(`yak.fail_stop`); everywhere else it becomes a FailStop. `yak.commands.output` prints a YakError as three lines, and
`yak.broker` turns a PeerError into an error code for the client.
"""

import copyreg
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from yak.limits import ERROR_MESSAGE_LENGTH_MAX

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

__all__ = [
    "CheckFailed",
    "ErrorCode",
    "FailStop",
    "LogDirectoryFailure",
    "LoginRefused",
    "PeerError",
    "ProtocolViolation",
    "StartRefused",
    "TooManyElements",
    "Unreachable",
    "UsageError",
    "WaitTimeout",
    "YakError",
    "closest",
    "directory_failure",
    "first_in",
]


def __getattr__(name: str) -> object:
    """Import kio's ErrorCode on first use: the client commands use this module without kio."""
    if name == "ErrorCode":
        from yak.lean_imports import import_kio

        import_kio()
        from kio.schema.errors import ErrorCode

        globals()["ErrorCode"] = ErrorCode
        return ErrorCode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class YakError(Exception):
    """An error for the user: a stable slug (`code`), the message, the reason (`why`) and remedies (`try_`).

    `try_` holds one remedy a line; the first can be pasted into a shell. Tracebacks show the reason and the remedies.
    """

    exit_code = 1
    meant: tuple[str, str] | None = None
    """A name that does not exist, and the closest one that does: the command line advises itself with the latter."""
    kafka_code: int | None = None
    """The number of the Kafka error that a broker or librdkafka reported (negative: the client's); None for others."""

    def __init__(self, code: str, message: str, *, why: str = "", try_: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.why = why
        self.try_ = try_
        self._notes: list[str] = []

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without `__init__`, whose arguments `args` lacks: process pools and Spark carry errors between processes."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # typeshed lacks it

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # PEP 678; `why` and `try_` may be set later
        """What a traceback shows below the message: the reason, the remedies, and the notes that were added."""
        reason = [f"  why:  {self.why}"] if self.why else []
        return [*reason, *(f"  try:  {line}" for line in self.try_), *self._notes]

    def add_note(self, note: str) -> None:
        """Add a line to tracebacks."""
        self._notes.append(note)

    def as_json(self) -> dict[str, Any]:
        """Its texts, for `from_json` in another process."""
        return {"code": self.code, "message": self.message, "why": self.why, "try": list(self.try_)}

    @classmethod
    def from_json(cls, texts: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError."""
        return cls(texts["code"], texts["message"], why=texts["why"], try_=tuple(texts["try"]))


class UsageError(YakError):
    """The request itself is wrong: a flag, an address, a port in use."""

    exit_code = 2


class StartRefused(YakError):
    """A broker refuses to start on the data it found: another node's data, a held lock, a bad directory."""

    exit_code = 1


class Unreachable(YakError):
    """No broker or metadata store answered, or authentication failed."""

    exit_code = 3


class CheckFailed(YakError):
    """A requested check failed."""

    exit_code = 4


class WaitTimeout(YakError):
    """The time-out passed without a result."""

    exit_code = 5


class PeerError(Exception):
    """A request item is wrong or cannot be served now: a Kafka error code with a message."""

    def __init__(self, error_code: "ErrorCode", message: str = "") -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code
        self.message = message[:ERROR_MESSAGE_LENGTH_MAX]


class ProtocolViolation(Exception):
    """The peer's bytes violate the protocol: the connection is closed, with this reason in the log."""


class LoginRefused(Exception):
    """A SASL exchange failed. The text is for this end's log: the other end learns only that it failed.

    With `is_public` the other end gets the text, as that of Kafka's SaslAuthenticationException.
    """

    def __init__(self, reason: str, *, is_public: bool = False) -> None:
        super().__init__(reason)
        self.is_public = is_public


class TooManyElements(ProtocolViolation):
    """A request or answer has more array elements and tagged fields than its reader allows."""


class FailStop(BaseException):
    """An unexpected exception (its `__cause__`) may have left replicated state half changed: the process must end.

    `what` names the step or the function that failed. The process ends without a controlled shutdown, as after `kill -9`;
    the next start reads the state from the disk and the metadata store. FailStop is no `Exception`, so that no handler
    that serves one request catches it.
    """

    exit_code = 6

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class LogDirectoryFailure(Exception):
    """A write, read or sync failed in one log directory: it goes offline until restart, without a retry.

    After EIO from fsync the page may be clean and gone, so a second fsync that succeeds proves nothing
    (PostgreSQL's "fsync errors" page).
    """

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(f"{directory}: {error}")
        self.directory = directory
        self.error = error


@contextmanager
def directory_failure(directory: str) -> Iterator[None]:
    """Turn an OSError of the block into the LogDirectoryFailure of this log directory."""
    try:
        yield
    except OSError as error:
        raise LogDirectoryFailure(directory, error) from error


def first_in(error: BaseException) -> BaseException:
    """The first exception in a group of them, at any depth; any other exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that a misspelt one may mean, for an error; empty if none is similar (difflib's ratio)."""
    import difflib  # imported when it is needed: brokers start without it

    return next(iter(difflib.get_close_matches(word, list(known), 1, cutoff)), "")
