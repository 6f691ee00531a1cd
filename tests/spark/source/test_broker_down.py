"""The source without Spark around it, while a broker is down: the only one that the bootstrap list names."""

import pickle
import time
from pathlib import Path

import pytest

from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.local.cluster import UpSettings

pytest.importorskip("pyspark")


@pytest.mark.timeout(300)
def test_query_continues_when_its_only_bootstrap_broker_is_killed(tmp_path: Path) -> None:
    from confluent_kafka import Producer
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from yak.spark.source.options import read_options
    from yak.spark.source.stream import StreamReader
    from yak.spark.source.stream_offsets import IDS
    from yak.spark.source.values import Decoding

    with running_cluster(tmp_path / "cluster", UpSettings(port=0, brokers=3, leaders=3)) as local:
        brokers = {each.node_id: each.address for each in local.status().brokers}
        admin = Admin(",".join(brokers.values()), timeout_ms=60_000)
        controller = admin.metadata().controller_id  # also the hardest case: librdkafka looks for another one late
        admin.create_topic("orders", partitions=3, replication_factor=3)
        producer = Producer({"bootstrap.servers": ",".join(brokers.values()), "acks": "all"})

        def produce(count: int) -> None:
            for number in range(count):
                producer.produce("orders", str(number).encode(), partition=number % 3)
            assert producer.flush(60) == 0

        one = Producer({"bootstrap.servers": brokers[controller]})
        while "orders" not in one.list_topics(timeout=10).topics:
            time.sleep(0.1)  # another broker has acknowledged its creation
        options = {"bootstrap": brokers[controller], "subscribe": "orders", "startingOffsets": "earliest"}
        reader = StreamReader(read_options(options), Decoding())
        begin = reader.initialOffset()
        produce(30)
        first = reader.latestOffset(begin, ReadAllAvailable())
        local.kill(controller)
        produce(30)
        second = reader.latestOffset(first, ReadAllAvailable())
        assert second == {"orders": {"0": 20, "1": 20, "2": 20}, IDS: admin.topic_ids(["orders"])}
        on_an_executor = pickle.loads(pickle.dumps(reader))
        offsets = []
        for start, end in ((begin, first), (first, second)):
            for task in reader.partitions(start, end):
                for batch in on_an_executor.read(pickle.loads(pickle.dumps(task))):
                    rows = batch.select(["partition", "offset"]).to_pylist()
                    offsets += [(row["partition"], row["offset"]) for row in rows]
        assert sorted(offsets) == [(partition, offset) for partition in range(3) for offset in range(20)]
        reader.stop()
