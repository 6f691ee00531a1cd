"""Requests, columns and errors of the columnar reader.

The columns are those of Spark's own Kafka source, in its order, so that a query works with both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from yak.errors import YakError

HEADERS_TYPE = pa.list_(
    pa.field(
        "element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    )  # Spark's name for it
)
COLUMNS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
COLUMNS_WITH_HEADERS = COLUMNS.append(pa.field("headers", HEADERS_TYPE))

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"

NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1  # the column timestampType, as Kafka's TimestampType numbers them


def arrow_schema(include_headers: bool) -> Any:
    """The `pyarrow.Schema` of every batch that `read` returns."""
    return COLUMNS_WITH_HEADERS if include_headers else COLUMNS


@dataclass(frozen=True)
class OffsetRange:
    """The records of one partition from offset `start` up to `end`, `end` excluded."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class ReadSettings:
    """How to read: bootstrap servers, batch sizes, timeout.

    `client` holds the user's `kafka.*` options without that prefix, by librdkafka's or Java's names. Options that the
    columnar reader does not support raise `UnsupportedSetting` before anything is sent. `timeout_ms` bounds how long a
    read goes without progress (leader elections, lost connections) before it fails with `NotReadable`.
    """

    bootstrap: str
    isolation: str = READ_UNCOMMITTED
    include_headers: bool = False
    fail_on_data_loss: bool = True
    batch_rows: int = 100_000
    fetch_bytes: int = 1 << 20
    timeout_ms: int = 60_000
    client: Mapping[str, str] = field(default_factory=dict)


class ReadError(YakError):
    """An error of the columnar reader, with its reason and what to try."""


class UnsupportedSetting(ReadError):
    """The columnar reader does not support the client setting `setting`; librdkafka may."""

    exit_code = 2

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(
            "spark-setting",
            f"the columnar reader cannot honour {setting}",
            why=why,
            try_=(f"leave out {setting}", 'or read through librdkafka: .option("client", "librdkafka")'),
        )
        self.setting = setting


class DataLoss(ReadError):
    """Requested records are gone: deleted by retention, truncated, or their topic was deleted."""

    exit_code = 2

    def __init__(self, why: str, topic: str, partition: int, start: int, earliest: int | None) -> None:
        super().__init__(
            "spark-data-loss",
            f"records of {topic}-{partition} from offset {start} on are gone",
            why=why,
            try_=('to read on from the first record that is left: .option("failOnDataLoss", "false")',),
        )
        self.topic = topic
        self.partition = partition
        self.start = start
        self.earliest = earliest  # the first offset that is left; None when no record is left to read


class NotReadable(ReadError):
    """No response in time, or an invalid one: no broker, no leader, no permission, damaged records."""

    exit_code = 3

    def __init__(self, message: str, why: str = "", try_: tuple[str, ...] = ()) -> None:
        super().__init__("spark-read", message, why=why, try_=try_)
