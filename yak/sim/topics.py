"""Creates the topics of a run, through CreateTopics like any client."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import Sender
from yak.sim.request_fields import Fields

CREATE_TOPICS = 19
MADE = (ErrorCode.none, ErrorCode.topic_already_exists)


def create_topics(channel: Sender, topics: list[Fields], retry_us: int, then: Callable[[], None]) -> None:
    """Retry until every topic exists; `then` is called once."""

    def answered(answer: Any | None) -> None:
        if answer is None or any(topic.error_code not in MADE for topic in answer.topics):
            channel.world.after(retry_us, lambda: create_topics(channel, topics, retry_us, then))
        else:
            then()

    fields = {"topics": topics, "timeout": dt.timedelta(seconds=5), "validate_only": False}
    channel.send(CREATE_TOPICS, 5, fields, answered)
