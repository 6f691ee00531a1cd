"""Explains the errors of the Python API and of group members. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

PYTHON: dict[str, Explanation] = {
    "closed": explain(
        "A producer, consumer or client was used after it was closed.",
        "close() was called, or its with block is over.",
        "create a new one, or move the call into the with block",
    ),
    "left-group": explain(
        "This consumer is no longer a member of its group, or its partitions were assigned to other members.",
        "It did not call poll() for max.poll.interval.ms, or sent no heartbeat for session.timeout.ms. "
        "Other members read its uncommitted records again, so a commit is rejected.",
        "poll() again: the consumer rejoins and continues at the committed offsets",
        "process fewer messages at a time: consumer.poll(max_messages=50)",
    ),
    "no-group": explain(
        "A call needs a consumer group, and the consumer has none.",
        "Without group_id, partitions are not shared and offsets are not committed.",
        'yak.Consumer(group_id="billing")',
        "consumer.assign(consumer.partitions(TOPIC)) reads without a group",
    ),
    "no-offset": explain(
        "The start offset in a partition is unknown.",
        'There is no committed offset, and auto_offset_reset is "error".',
        "consumer.assign({partition: offset})",
        'yak.Consumer(auto_offset_reset="earliest")',
    ),
    "not-assigned": explain(
        "A consumer cannot seek in a partition that is not assigned to it.",
        "A group assigns partitions during poll(), and may have assigned this one to another member.",
        "seek in on_assigned",
        "consumer.assign({partition: offset})",
    ),
    "not-begun": explain(
        "An asynchronous producer, consumer or client was used outside of its async with block.",
        "It connects when the block is entered.",
        "async with yak.aio.Producer() as producer: ...",
    ),
    "not-decoded": explain(
        "The key or value of a record cannot be decoded with the consumer's format.",
        "The producer of the record used another format: it is not JSON, or not UTF-8.",
        "message.raw_key and message.raw_value are the bytes",
        "yak.Consumer(values=yak.TEXT), or yak.BYTES, or a yak.Serde",
    ),
    "not-encoded": explain(
        "A key or value cannot be encoded with the producer's format; nothing was sent.",
        "By default, values become JSON and keys become text.",
        "yak.Producer(values=yak.BYTES), or yak.TEXT, or a yak.Serde",
    ),
    "queue-full": explain(
        "A record was not sent: the producer's queue stayed full.",
        "The program produces faster than the brokers acknowledge, or no broker responds.",
        "yak doctor",
        'yak.Producer(config={"queue.buffering.max.messages": 500_000})',
    ),
    "rebalance-in-progress": explain(
        "The offsets were not committed: the consumer group is rebalancing.",
        "A member joined or left. This member rejoins in poll().",
        "poll() again to complete the rebalance, then commit",
    ),
}
