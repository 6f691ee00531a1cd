"""How to send: the Producer's settings as a value."""

from dataclasses import dataclass
from typing import Final

ACKS: Final = ("all", "1", "0")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to send. `count` None: until stopped. `rate` None: as fast as possible. `partition` None: by key."""

    topic: str
    partition: int | None = None
    acks: str = "all"
    compression: str = "none"
    count: int | None = 1
    rate: float | None = None
