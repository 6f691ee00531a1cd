"""Which topics the members of a group subscribed to, as far as they say it in the consumers' own format.

What a member says under an assignment strategy is its own business; of groups of the type "consumer" it is Kafka's
ConsumerProtocolSubscription, a version and then an array of topic names in every version there is.
"""

from __future__ import annotations

from collections.abc import Iterable

from yak.groups.fields import BadGroupRecord, Reader


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics in these subscriptions; None when one cannot be read, so that nothing is known of the group."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            reader = Reader(subscription)
            reader.int16()
            topics.update(reader.text() for _ in range(reader.count()))
    except BadGroupRecord:
        return None
    return frozenset(topics)
