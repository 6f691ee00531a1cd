"""The real random source behind `yak.ports.random_source`."""

import random
import secrets
import uuid

from yak.ports.random_source import RandomSource

# Kafka's Uuid.java: the zero id, the id of the metadata topic (1), and of log directories: LOST (1), UNASSIGNED (0),
# MIGRATING (2).
_RESERVED_BELOW = 100


class SystemRandomSource(RandomSource):
    """The operating system's random source."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uuid4(self) -> uuid.UUID:
        """A random id that Kafka does not reserve, and whose base64 form does not start with a dash (Uuid.java)."""
        while True:
            drawn = uuid.uuid4()
            if drawn.int >= _RESERVED_BELOW and (drawn.int >> 122) != 62:
                return drawn

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return self._random.randrange(limit)

    def secret_bytes(self, count: int) -> bytes:
        """Unpredictable bytes."""
        return secrets.token_bytes(count)
