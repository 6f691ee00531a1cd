"""librdkafka for an instance: its configuration, log and errors."""

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any

from yak.server.http.consumers.failures import kafka_failure
from yak.server.http.consumers.settings import Settings


def make_handle(settings: Settings, bootstrap: str, group: str, client_id: str, log_lines: deque[str]) -> Any:
    """A consumer; it connects by itself and logs to `log_lines`. Raises Problem."""
    from confluent_kafka import Consumer

    config = handle_config(settings) | {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client_id,
        "error_cb": lambda error: log_lines.append(error.str()),
    }
    with explained("the consumer could not be created"):
        return Consumer(config, logger=_Log(log_lines))


def handle_config(settings: Settings) -> dict[str, Any]:
    """librdkafka's configuration for an instance, with small queues: a broker may have many instances."""
    return {
        "group.protocol": "classic",
        "enable.auto.commit": settings.auto_commit,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error" if settings.offset_reset == "none" else settings.offset_reset,
        "isolation.level": settings.isolation,
        "allow.auto.create.topics": False,
        # A killed broker takes its instances along: the group must not wait 45 s for them.
        "session.timeout.ms": 10_000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "queued.min.messages": 1_000,
        "queued.max.messages.kbytes": 2_048,
        "message.max.bytes": 1_048_576,
        "fetch.max.bytes": 2_097_152,
        "fetch.wait.max.ms": 250,
        "fetch.queue.backoff.ms": 10,
        "fetch.error.backoff.ms": 100,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.connection.setup.timeout.ms": 3_000,
        "socket.timeout.ms": 15_000,
    }


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise librdkafka's errors as Problem."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise kafka_failure(error.args[0], what) from None


class _Log:
    """Receives librdkafka's log, which would otherwise go to stderr, while the consumer is polled."""

    def __init__(self, lines: deque[str]) -> None:
        self._lines = lines

    def log(self, _level: int, form: str, *args: object) -> None:
        """One line, with the arguments of `logging.Logger.log`."""
        self._lines.append(form % args)
