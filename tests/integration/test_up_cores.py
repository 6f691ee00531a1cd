"""`yak up --cores 2`: machines of two real brokers; one machine's death costs no partition its leader for long."""

from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


def test_up_with_cores_survives_the_death_of_a_machine(yak: Any) -> None:
    ran = yak.run("up", "-d", "--port", "0", "--brokers", "3", "--leaders", "3", "--cores", "2", "-o", "json")
    assert ran.code == 0, ran.err
    bootstrap = ran.json["bootstrap"]
    assert [each["machine"] for each in ran.json["brokers"]] == [f"machine:{1 + index // 2}" for index in range(6)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 6, 3)])["t"].result(30)
    partitions = admin.list_topics("t", timeout=10).topics["t"].partitions.values()
    assert all(len({(node - 1) // 2 for node in each.replicas}) == 3 for each in partitions)
    assert yak.run("node", "kill", "3", "--machine").code == 0
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(60):
        producer.produce(
            "t", partition=number % 6, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert failed == []
    rows = yak.run("brokers", "list", "-b", bootstrap, "-o", "json").json
    assert {each["id"]: each["state"] for each in rows} == {
        1: "ACTIVE", 2: "ACTIVE", 3: "FENCED", 4: "FENCED", 5: "ACTIVE", 6: "ACTIVE",
    }  # fmt: skip
    folded = yak.run("brokers", "list", "-b", bootstrap).out
    assert "3,4" in folded
    assert yak.run("node", "restart", "3", "--machine").code == 0
