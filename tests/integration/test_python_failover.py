"""Brokers are killed under programs that use `import yak`: no send fails, nothing acknowledged is missed, commits stay."""

import threading
from collections.abc import Iterator

import pytest
import trio
from support.waiting import wait_until

import yak
from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.local.cluster import LocalCluster, UpSettings

RECORDS = 4000
CONFIGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "group.initial.rebalance.delay.ms=100",
    "offsets.topic.num.partitions=1",
)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = UpSettings(port=0, brokers=3, leaders=3, configs=CONFIGS)
    with running_cluster(tmp_path_factory.mktemp("python") / "cluster", settings) as made:
        yield made


def test_a_killed_leader_and_coordinator_costs_neither_records_nor_commits(cluster: LocalCluster) -> None:
    bootstrap = ",".join(broker.address for broker in cluster.status().brokers)
    with yak.connect(bootstrap) as client:
        client.create_topic("orders", num_partitions=3)
    sent: list[yak.Delivery] = []
    half_sent = threading.Event()
    killed = threading.Event()

    def send() -> None:
        with yak.Producer(bootstrap, delivery_timeout=60) as producer:
            for number in range(RECORDS):
                sent.append(producer.send("orders", number, key=str(number)))
                if number == RECORDS // 2:
                    producer.flush()
                    half_sent.set()
                    assert killed.wait(60)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    seen: list[int] = []
    refused: list[str] = []
    has_read = trio.Event()

    async def read() -> None:
        async with yak.trio.Consumer(bootstrap, group_id="billing") as consumer:
            await consumer.subscribe("orders")
            while len(set(seen)) < RECORDS:
                seen.extend(message.value for message in await consumer.poll(1.0, max_messages=100))
                if seen:
                    has_read.set()
                try:
                    await consumer.commit()
                except yak.YakError as error:  # the rest is read again, by us or by another member
                    refused.append(error.code)

    async def main() -> None:
        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.to_thread.run_sync(half_sent.wait)
                await has_read.wait()  # the first member of a group creates the topic of the offsets
                with yak.connect(bootstrap) as client:
                    # The one partition of the offsets has its leader in the group's coordinator.
                    victim = client.topics(internal=True)["__consumer_offsets"].partitions[0].leader
                admin, partitions = Admin(bootstrap), [yak.TopicPartition("orders", number) for number in range(3)]
                assert len(admin.watermarks(partitions)) == 3
                await trio.to_thread.run_sync(cluster.kill, victim)
                killed.set()
                # the leaders that librdkafka knows are those before the kill
                assert len(await trio.to_thread.run_sync(admin.watermarks, partitions)) == 3

    trio.run(main)
    sender.join(60)
    assert not sender.is_alive()
    assert [delivery.exception(0) for delivery in sent if delivery.exception(0) is not None] == []
    assert set(seen) == set(range(RECORDS))
    assert set(refused) <= {"left-group", "rebalance-in-progress", "no-coordinator", "timed-out"}

    def everything_is_committed() -> bool:
        with yak.Consumer(bootstrap, group_id="billing") as consumer:
            ends = {each: consumer.watermarks(each)[1] for each in consumer.partitions("orders")}
            return {each: consumer.committed(each) for each in ends} == ends

    wait_until(everything_is_committed, "the next coordinator knows every commit")
