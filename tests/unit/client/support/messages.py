"""Messages for tests, without a broker."""

from yak.client.api.message import JSON, TEXT, Message
from yak.client.consumer import ConsumerRecord


def message(topic="t", partition=0, offset=0, *, key=None, value=b"null", epoch=3, keys=TEXT, values=JSON):
    return Message(ConsumerRecord(topic, partition, offset, -1, "CreateTime", key, value, [], epoch), keys, values)
