"""What is to be sent, and how: the Producer's form as a value."""

from dataclasses import dataclass
from typing import Final

ACKS: Final = ("all", "1", "0")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to send. `count` None goes on until stopped; `rate` None goes as fast as the cluster takes it; partition None: by key."""

    topic: str
    partition: int | None = None
    acks: str = "all"
    compression: str = "none"
    count: int | None = 1
    rate: float | None = None
