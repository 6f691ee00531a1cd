"""What the feeds of the message screen ask of librdkafka."""

from types import SimpleNamespace

from yak.client.groups import group_reader
from yak.tui.messages import feeds
from yak.tui.messages.subscription import Choice, Subscription


def test_feed_of_a_group_reads_ahead_as_far_as_one_without_a_group(monkeypatch):
    configs = []

    class Handle:
        def __class_getitem__(cls, _message):
            return cls

        def __init__(self, config):
            configs.append(config)

        def subscribe(self, _topics, _callbacks):
            pass

    monkeypatch.setattr(group_reader, "ConsumerHandle", Handle)
    wanted = Subscription((Choice("orders"),), group="audit")
    feeds._group_feed("h:1", wanted, SimpleNamespace(watermarks=None), {}, print)
    assert feeds.AHEAD.items() <= configs[0].items()
