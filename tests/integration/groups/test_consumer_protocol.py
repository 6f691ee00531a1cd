"""Groups of the consumer protocol (KIP-848) with librdkafka, and groups that change their protocol while they run."""

from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient
from support.group_processes import Group
from support.loads import SteadyLoad

PARTITIONS = 6
CLIENT = "confluent-kafka"


def kind_of(bootstrap: str, group: str) -> str:
    """Which protocol the group speaks now."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    listed = admin.list_consumer_groups(request_timeout=10).result(10).valid
    return {ConsumerGroupType.CLASSIC: "classic", ConsumerGroupType.CONSUMER: "consumer"}[
        next(each.type for each in listed if each.group_id == group)
    ]


def test_members_come_leave_and_die(group_broker, topic):
    load = SteadyLoad(group_broker.bootstrap, topic, partitions=PARTITIONS, pause_seconds=0.005)
    with load, Group(group_broker.bootstrap, f"g-{topic}", topic) as group:
        first = group.start(CLIENT, protocol="consumer")
        group.wait_shared(PARTITIONS, first)
        second, third = (group.start(CLIENT, protocol="consumer") for _ in range(2))
        group.wait_shared(PARTITIONS, first, second, third)
        assert kind_of(group_broker.bootstrap, group.name) == "consumer"
        second.leave()
        group.wait_shared(PARTITIONS, first, third)
        third.kill()
        group.wait_shared(PARTITIONS, first)
        fourth = group.start(CLIENT, protocol="consumer")
        group.wait_shared(PARTITIONS, first, fourth)
        group.wait_progress(20, first, fourth)
        load.stop()
        assert load.failed == []
        group.wait_seen(load, topic)
        group.check()


def test_a_group_changes_its_protocol_and_back_under_load(group_broker, topic):
    load = SteadyLoad(group_broker.bootstrap, topic, partitions=PARTITIONS, pause_seconds=0.005)
    with load, Group(group_broker.bootstrap, f"g-{topic}", topic) as group:
        old = [group.start(CLIENT) for _ in range(2)]
        group.wait_shared(PARTITIONS, *old)
        assert kind_of(group_broker.bootstrap, group.name) == "classic"
        new = group.start(CLIENT, protocol="consumer")
        group.wait_shared(PARTITIONS, *old, new)
        assert kind_of(group_broker.bootstrap, group.name) == "consumer"
        old[0].leave()
        group.wait_shared(PARTITIONS, old[1], new)
        group.wait_progress(20, old[1], new)
        new.leave()
        group.wait_shared(PARTITIONS, old[1])
        assert kind_of(group_broker.bootstrap, group.name) == "classic"
        third = group.start(CLIENT)
        group.wait_shared(PARTITIONS, old[1], third)
        load.stop()
        assert load.failed == []
        group.wait_seen(load, topic)
        group.check()
