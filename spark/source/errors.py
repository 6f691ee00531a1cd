"""Errors that pass from Python workers through Spark as text: each is one line with what, why, and what to do.

Spark shows a worker's exception as a traceback inside a Java trace. The line begins with the slug in brackets, as
Spark's own error conditions do, so that `yak spark` finds it there.
"""

import contextlib
from collections.abc import Iterator, Sequence

from yak.errors import YakError

OPTION = "spark-option"
DATA_LOSS = "spark-data-loss"
OFFSET_RANGE = "spark-offset-range"
CHECKPOINT = "spark-checkpoint"
SCHEMA = "spark-schema"
JSON_RECORD = "spark-json"
WRITE = "spark-write"


class SourceError(YakError):
    """A `YakError` whose text is complete in one line: `[slug] what: why. Try: what to do`."""

    exit_code = 2

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        tries = f". Try: {'; or '.join(self.try_)}" if self.try_ else ""
        return " ".join(f"[{self.code}] {self.message}{why}{tries}".split())


def bad_option(name: str, value: object, why: str, *try_: str) -> SourceError:
    """The error for an invalid option."""
    return SourceError(OPTION, f'option {name}="{value}" cannot be taken', why=why, try_=try_)


def data_loss(what: str, reasons: Sequence[str] = ()) -> SourceError:
    """The error for lost records, with the meaning and wording of Spark's Kafka source (KAFKA_DATA_LOSS)."""
    return SourceError(
        DATA_LOSS,
        what,
        why="; ".join(reasons)
        or "some data may have been lost: it was aged out by retention, or its topic was deleted before it was processed",
        try_=('to read on without it: .option("failOnDataLoss", "false")',),
    )


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Convert every `YakError` from the body to a `SourceError` with the same slug and text."""
    try:
        yield
    except SourceError:
        raise
    except YakError as error:
        raise SourceError(error.code, error.message, why=error.why, try_=error.try_) from None
