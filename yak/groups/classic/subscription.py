"""The topics that the members of a classic group subscribe to, as far as their metadata is readable.

Only the members define the metadata under a protocol. For groups of the type "consumer" it is Kafka's
ConsumerProtocolSubscription: every version begins with a version number and an array of topic names.
"""

from __future__ import annotations

from collections.abc import Iterable

from yak.groups.fields import BadGroupRecord, Reader


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics in these subscriptions; None when one subscription is unreadable."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            reader = Reader(subscription)
            reader.int16()
            topics.update(reader.text() for _ in range(reader.count()))
    except BadGroupRecord:
        return None
    return frozenset(topics)
