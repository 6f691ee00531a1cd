"""Explains the errors of the Python API and of group members. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

PYTHON: dict[str, Explanation] = {
    "closed": explain(
        "A producer, consumer or client was used after its end.",
        "close() was called, or its with block is over.",
        "make a new one, or move the call into the with block",
    ),
    "left-group": explain(
        "This consumer is no longer a member of its group, or its partitions were given to others.",
        "It did not call poll() for max.poll.interval.ms, or the broker did not hear from it for session.timeout.ms. "
        "What it had not committed is read again by others, so a commit now is refused.",
        "poll() again: the consumer joins anew, and reads on from what was committed",
        "take fewer messages at a time: consumer.poll(max_messages=50)",
    ),
    "no-group": explain(
        "A call needs a consumer group, and the consumer has none.",
        "Without group_id nobody shares a consumer's work or remembers its offsets.",
        'yak.Consumer(group_id="billing")',
        "consumer.assign(consumer.partitions(TOPIC)) reads without a group",
    ),
    "no-offset": explain(
        "Where to begin in a partition is not known.",
        'Nothing is committed, and auto_offset_reset="error" leaves no other place.',
        "consumer.assign({partition: offset})",
        'yak.Consumer(auto_offset_reset="earliest")',
    ),
    "not-assigned": explain(
        "A consumer cannot seek in a partition that it does not read.",
        "A group assigns partitions during poll(), and may have given this one to another member.",
        "seek in on_assigned",
        "consumer.assign({partition: offset})",
    ),
    "not-begun": explain(
        "An asynchronous producer, consumer or client was used outside of its async with block.",
        "It connects when the block is entered, since that takes waiting.",
        "async with yak.aio.Producer() as producer: ...",
    ),
    "not-decoded": explain(
        "The key or value of a record cannot be read in the way that the consumer was told.",
        "The record was written by somebody who writes it otherwise: not JSON, or not UTF-8.",
        "message.raw_key and message.raw_value are the bytes",
        "yak.Consumer(values=yak.TEXT), or yak.BYTES, or a yak.Serde",
    ),
    "not-encoded": explain(
        "A key or value cannot be written in the way that the producer was told; nothing was sent.",
        "Values become JSON, and keys text, unless the producer was told otherwise.",
        "yak.Producer(values=yak.BYTES), or yak.TEXT, or a yak.Serde",
    ),
    "queue-full": explain(
        "A record was not sent: the producer's queue had no place for it for too long.",
        "Records are made faster than the brokers acknowledge them, or nobody acknowledges any.",
        "yak doctor",
        'yak.Producer(config={"queue.buffering.max.messages": 500_000})',
    ),
    "rebalance-in-progress": explain(
        "The offsets were not committed: the consumer group is sharing out its partitions anew.",
        "A member came or went, and this one has not taken part yet; it does in poll().",
        "poll() again, so that the group can settle, then commit",
    ),
}
