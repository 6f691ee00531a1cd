"""Creates the topics of a run, through CreateTopics like any client."""

from __future__ import annotations

import datetime as dt
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import RETRY_US, Channel
from yak.sim.wire import nested, request_class

CREATE_TOPICS = 19


class TopicMaker:
    """Retries until every topic exists."""

    def __init__(self, channel: Channel, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        """`topics`: name -> number of partitions, configs."""
        self._channel = channel
        self._topics = topics
        self.is_done = False

    def start(self) -> None:
        """Send CreateTopics."""
        cls = request_class(CREATE_TOPICS, 5)
        topic_class = nested(cls, "topics")
        config_class = nested(topic_class, "configs")
        body = cls(
            topics=tuple(
                topic_class(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    assignments=(),
                    configs=tuple(config_class(name=key, value=value) for key, value in configs.items()),
                )
                for name, (partitions, configs) in self._topics.items()
            ),
            timeout=dt.timedelta(seconds=5),
            validate_only=False,
        )
        self._channel.send(CREATE_TOPICS, 5, body, self._on_answer)

    def _on_answer(self, answer: Any | None) -> None:
        good = (ErrorCode.none, ErrorCode.topic_already_exists)
        if answer is not None and all(topic.error_code in good for topic in answer.topics):
            self.is_done = True
            return
        self._channel.world.after(RETRY_US, self.start)
