"""Events from two images: what is told, in which order, and nothing that is no news."""

import uuid
from dataclasses import replace

import pytest

from yak.cluster.image import BrokerInfo, Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import USER, BrokerState
from yak.core.events import Notice
from yak.views.broker_events import of_image
from yak.views.notices import of_notice

TOPIC = uuid.UUID(int=7)
OTHER = uuid.UUID(int=8)


def broker(node_id=1, epoch=5, state=BrokerState.ACTIVE):
    return BrokerInfo(node_id, epoch, "boot", ("d",), "host", 9092, None, "leader", state)


def partition(number=0, *, leader=1, epoch=3, isr=(1, 2), replicas=(1, 2), **more):
    return PartitionInfo(number, replicas, tuple(IsrMember(node, 5) for node in isr), (), leader, epoch, epoch, **more)


def image(*partitions, brokers=(), name="a", topic_id=TOPIC, configs=None, **more):
    topics = {name: TopicInfo(name, topic_id, tuple(partitions), configs or {})} if partitions else {}
    return Image(brokers={each.node_id: each for each in brokers}, topics=topics, **more)


def told(before, after, **delta):
    return [(each.kind, each.message) for each in of_image(before, after, Delta(**delta))]


def changed(before, after):
    return told(image(before), image(after), topics_changed=("a",), partitions_changed={"a": (0,)})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, broker(state=BrokerState.FENCED), ["broker-registered"]),
        (None, broker(), ["broker-registered", "broker-unfenced"]),
        (broker(state=BrokerState.FENCED), broker(), ["broker-unfenced"]),
        (broker(), broker(state=BrokerState.FENCED), ["broker-fenced"]),
        (broker(), broker(state=BrokerState.STOPPING), ["broker-stopping"]),
        (broker(state=BrokerState.STOPPING), broker(state=BrokerState.CLOSED), ["broker-stopped"]),
        (broker(), broker(epoch=9, state=BrokerState.FENCED), ["broker-registered"]),
        (broker(), broker(epoch=9), ["broker-registered", "broker-unfenced"]),
        (broker(), None, ["broker-unregistered"]),
        (broker(), broker(), []),
    ],
)
def test_a_broker(before, after, expected):
    images = (image(brokers=[] if each is None else [each]) for each in (before, after))
    found = told(*images, brokers_changed=(1,))
    assert [kind for kind, _words in found] == expected
    assert all("broker 1" in words for _kind, words in found)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (partition(leader=2, epoch=4), [("leader-changed", "a-0 is led by 2 in epoch 4, previously by 1")]),
        (partition(leader=-1, epoch=4), [("leader-changed", "a-0 is offline, previously led by 1")]),
        (partition(epoch=4), [("leader-changed", "a-0 is led by 1 in a new epoch, 4")]),
        (partition(isr=(1,)), [("isr-shrunk", "ISR of a-0: 1,2 -> 1")]),
        (partition(isr=(1, 3)), [("isr-changed", "ISR of a-0: 1,2 -> 1,3")]),
        (partition(isr=(1, 2, 3)), [("isr-expanded", "ISR of a-0: 1,2 -> 1,2,3")]),
        (partition(isr=(2, 1)), []),
        (partition(isr=()), [("isr-shrunk", "ISR of a-0: 1,2 -> none")]),
        (
            partition(leader=2, epoch=4, isr=(2,)),
            [
                ("leader-changed", "a-0 is led by 2 in epoch 4, previously by 1"),
                ("isr-shrunk", "ISR of a-0: 1,2 -> 2"),
            ],
        ),
        (
            partition(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,)),
            [("reassignment-started", "a-0 is being reassigned: adding 3, removing 2")],
        ),
        (partition(replicas=(2, 1)), [("reassignment-done", "a-0 has the new replica order 2,1")]),
        (partition(), []),
    ],
)
def test_a_partition(after, expected):
    assert changed(partition(), after) == expected


def test_a_leader_after_none():
    assert changed(partition(leader=-1), partition(leader=2, epoch=4)) == [
        ("leader-changed", "a-0 is led by 2 again, in epoch 4")
    ]


def test_reassignment_continues_and_ends():
    moving = partition(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,))
    other = partition(replicas=(4, 1, 2), adding_replicas=(4,), removing_replicas=(2,))
    assert [kind for kind, _ in changed(moving, other)] == ["reassignment-changed"]
    assert changed(moving, partition(replicas=(3, 1))) == [("reassignment-done", "a-0 has the replicas 3,1")]


def test_topics_come_grow_and_go():
    new = image(partition(), partition(1))
    assert told(image(), new, topics_changed=("a",), partitions_changed={"a": (0, 1)}) == [
        ("topic-created", "topic a is created: 2 partitions, 2 replicas each")
    ]
    assert told(image(partition()), new, topics_changed=("a",), partitions_changed={"a": (1,)}) == [
        ("topic-changed", "topic a has 2 partitions, previously 1")
    ]
    assert told(new, image(), topics_removed=(("a", TOPIC),)) == [("topic-deleted", "topic a is deleted")]
    anew = image(partition(leader=2), topic_id=OTHER)
    delta = {"topics_removed": (("a", TOPIC),), "topics_changed": ("a",), "partitions_changed": {"a": (0,)}}
    assert [kind for kind, _ in told(new, anew, **delta)] == ["topic-deleted", "topic-created"]


def test_config_events_report_new_values_and_values_that_are_the_default_again():
    before = image(partition(), configs={"retention.ms": "1", "cleanup.policy": "compact"})
    after = image(partition(), configs={"retention.ms": "2"})
    assert told(before, after, configs_changed=(("topic", "a"),)) == [
        ("config-changed", "topic a: cleanup.policy=(default), retention.ms=2")
    ]
    assert told(image(), image(default_broker_configs={"x": "1"}), configs_changed=(("broker", ""),)) == [
        ("config-changed", "all brokers: x=1")
    ]
    assert told(image(), image(broker_configs={1: {"x": "1"}}), configs_changed=(("broker", "1"),)) == [
        ("config-changed", "broker 1: x=1")
    ]
    assert told(image(), after, configs_changed=(("topic", "a"),)) == []


def test_config_event_of_a_changed_password_names_the_config_and_hides_the_password():
    before, after = image(user_credentials={"ann": {"SCRAM": "1"}}), image(user_credentials={"ann": {"SCRAM": "2"}})
    assert told(before, after, configs_changed=((USER, "ann"),)) == [("config-changed", "user ann: SCRAM=(hidden)")]
    assert told(before, image(), configs_changed=((USER, "ann"),)) == [("config-changed", "user ann: SCRAM=(default)")]


def test_the_controller():
    before, after = image(controller_id=1, controller_epoch=3), image(controller_id=2, controller_epoch=4)
    assert told(before, after, controller_changed=True) == [
        ("controller-changed", "broker 2 is elected controller, previously broker 1")
    ]
    assert told(image(), before) == [("controller-changed", "broker 1 is elected controller")]


def test_causes_come_first():
    before = image(partition(), brokers=[broker(), broker(2)], controller_id=1, controller_epoch=1)
    after = image(
        partition(leader=2, epoch=4, isr=(2,)),
        brokers=[broker(state=BrokerState.FENCED), broker(2)],
        controller_id=2,
        controller_epoch=2,
    )
    found = told(before, after, brokers_changed=(1,), topics_changed=("a",), partitions_changed={"a": (0,)})
    assert [kind for kind, _ in found] == ["broker-fenced", "controller-changed", "leader-changed", "isr-shrunk"]


def test_fields_are_for_programs():
    before = image(partition())
    after = replace(before, topics={"a": TopicInfo("a", TOPIC, (partition(leader=-1, epoch=4, isr=(1,)),))})
    delta = Delta(topics_changed=("a",), partitions_changed={"a": (0,)})
    leader, isr = of_image(before, after, delta)
    assert leader.topic == "a"
    assert leader.fields == {
        "partition": 0,
        "leader": None,
        "leader_epoch": 4,
        "partition_epoch": 4,
        "from": 1,
        "to": None,
    }
    assert (isr.fields["from"], isr.fields["to"], isr.fields["left"]) == ([1, 2], [1], [2])


# ------------------------------------------------------------------------------------------------------------- notices


def test_a_notice_of_a_partition_names_topic_and_number():
    notice = Notice(
        "info", "log-truncated", {"partition": "my-topic-3", "leader_epoch": 2, "from_offset": 9, "to_offset": 7}
    )
    found = of_notice(notice)
    assert (found.kind, found.topic) == ("log-truncated", "my-topic")
    assert found.fields == {"leader_epoch": 2, "from_offset": 9, "to_offset": 7, "partition": 3}


def test_offline_disk_is_reported_without_its_path():
    found = of_notice(Notice("error", "log-directory-offline", {"directory": "/secret/data", "error": "I/O error"}))
    assert found.kind == "disk-offline"
    assert "secret" not in f"{found.message}{found.fields}"


def test_lines_that_are_for_the_log_are_no_events():
    assert of_notice(Notice("info", "segments-removed", {"partition": "a-0"})) is None
