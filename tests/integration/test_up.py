"""`yak up` as people and scripts use it: a real Redis, a real broker, real kills."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient
from support.loads import read_all
from support.local_clusters import up, write
from support.waiting import wait_until

from yak.local import ports
from yak.local.processes import identify


def broker_of(status: dict[str, Any]) -> dict[str, Any]:
    (broker,) = status["brokers"]
    return dict(broker)


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: identify(pid) is None, "the process is gone")


def test_up_detached_gives_a_cluster_that_outlives_it_and_down_stops_it(yak: Any) -> None:
    status = up(yak, "--seed-topic", "orders:3", "--seed-topic", "notes")
    keys = {"cluster", "data_dir", "metadata", "moving_to", "redis", "voters", "bootstrap", "brokers"}
    assert set(status) == keys | {"listeners", "security_protocol", "ca_file"}
    assert status["cluster"]
    assert status["data_dir"] == str(yak.folder / "yak-data")
    broker = broker_of(status)
    assert broker["state"] == "running"
    assert broker["role"] == "leader"
    assert httpx.get(f"{broker['http_address']}/health/ready", trust_env=False).status_code == 200
    assert status["bootstrap"] == broker["address"]
    topics = AdminClient({"bootstrap.servers": status["bootstrap"]}).list_topics(timeout=10).topics
    assert (len(topics["orders"].partitions), len(topics["notes"].partitions)) == (3, 1)
    write(status["bootstrap"], "t", "a", "b")
    assert read_all(status["bootstrap"], "t") == [b"a", b"b"]
    assert yak.run("up", "--status", "-o", "json").json == status
    again = yak.run("up", "-d", "--seed-topic", "orders:3", "-o", "json")
    assert again.code == 0, again.err
    assert again.json == status
    assert "already" in again.err

    down = yak.run("down")
    assert down.code == 0, down.err
    assert identify(broker["pid"]) is None
    after = yak.run("up", "--status", "-o", "json").json
    assert broker_of(after)["state"] == "stopped"
    assert broker_of(after)["pid"] is None
    second = up(yak)
    assert second["cluster"] == status["cluster"]
    assert read_all(second["bootstrap"], "t") == [b"a", b"b"]


def test_killed_broker_and_killed_redis_are_brought_back_with_their_data(yak: Any) -> None:
    status = up(yak)
    write(status["bootstrap"], "t", "kept")
    first = broker_of(status)
    redis_pid = json.loads((yak.folder / "yak-data" / "cluster.json").read_text())["redis"]["process"]["pid"]
    killed(first["pid"])
    assert broker_of(yak.run("up", "--status", "-o", "json").json)["state"] == "dead"
    assert identify(redis_pid) is not None
    for how in ((), ("--hard",)):
        ran = yak.run("node", "restart", "1", *how, "-o", "json")
        assert ran.code == 0, ran.err
        assert (broker_of(ran.json)["address"], broker_of(ran.json)["state"]) == (first["address"], "running")
        assert broker_of(ran.json)["pid"] != first["pid"]
        first = broker_of(ran.json)
    killed(redis_pid)
    assert "Redis was gone and runs again" in yak.run("up", "-d").err
    assert "it ran already" in yak.run("up", "-d").err
    state = json.loads((yak.folder / "yak-data" / "cluster.json").read_text())
    killed(first["pid"])
    killed(state["redis"]["process"]["pid"])
    again = up(yak)
    assert again["cluster"] == status["cluster"]
    assert read_all(again["bootstrap"], "t") == [b"kept"]


def test_up_on_emptied_redis_is_refused_until_a_restore(yak: Any) -> None:
    status = up(yak)
    write(status["bootstrap"], "orders", "one")
    assert yak.run("down").code == 0
    shutil.rmtree(yak.folder / "yak-data" / "redis")
    refused = yak.run("up", "-d")
    assert refused.code == 1
    assert "broker-frozen" in refused.err
    assert yak.run("cluster", "restore", "--yes").code == 0
    assert read_all(up(yak)["bootstrap"], "orders") == [b"one"]


def test_a_reused_pid_is_never_killed(yak: Any) -> None:
    status = up(yak)
    path = yak.folder / "yak-data" / "cluster.json"
    known = json.loads(path.read_text())
    with subprocess.Popen(["sleep", "60"]) as stranger:
        mine = dict(known["brokers"][0]["process"])
        known["brokers"][0]["process"]["pid"] = stranger.pid
        path.write_text(json.dumps(known))
        shown = yak.run("up", "--status", "-o", "json").json
        assert broker_of(shown)["state"] == "dead"
        assert yak.run("down").code == 0
        assert stranger.poll() is None
        stranger.kill()
    leftover = identify(mine["pid"])
    assert leftover is not None
    os.kill(broker_of(status)["pid"], signal.SIGKILL)


def test_purge_deletes_what_is_ours_and_nothing_else(yak: Any) -> None:
    up(yak)
    (yak.folder / "yak-data" / "mine.txt").write_text("not yak's")
    assert yak.run("down", "--purge").code == 2, "it asks, and there is no terminal"
    assert yak.run("down", "--purge", "--yes").code == 0
    assert [path.name for path in (yak.folder / "yak-data").iterdir()] == ["mine.txt"]


def test_requested_port_that_is_in_use_is_refused_with_exit_code_2(yak: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ran = yak.run("up", "-d", "--port", str(port))
    assert ran.code == 2
    assert ran.err.startswith(f"error[port-in-use]: cannot listen on 127.0.0.1:{port}")
    assert "try:" in ran.err
    assert yak.run("up", "--status", "-o", "json").json["brokers"] == []


def test_broker_configs_reach_the_broker_and_a_bad_one_prints_the_brokers_error(yak: Any) -> None:
    ran = yak.run("up", "-d", "--port", "0", "-c", "no.such.config=1")
    assert ran.code == 2, ran.err
    assert "no.such.config" in ran.err
    status = up(yak, "-c", "auto.create.topics.enable=false")
    topics = AdminClient({"bootstrap.servers": status["bootstrap"]}).list_topics("absent", timeout=10).topics
    assert topics["absent"].error is not None


def test_advertised_listener_admits_clients_of_another_network(yak: Any) -> None:
    """The case of a container: a listener on every address, advertised under the name that clients outside use."""
    port = ports.find_lasting("127.0.0.1")
    outside = f"localhost:{port}"
    status = up(yak, "--listen", f"EXTERNAL://0.0.0.0:{port}", "--advertise", f"EXTERNAL://{outside}")
    assert status["listeners"] == [f"EXTERNAL://{outside}"]
    write(outside, "t", "from outside")
    told = AdminClient({"bootstrap.servers": outside}).list_topics(timeout=20).brokers[1]
    assert f"{told.host}:{told.port}" == outside
    assert read_all(status["bootstrap"], "t") == [b"from outside"]
    doctor = {each["check"]: each for each in yak.run("doctor", "-o", "json").json}
    assert doctor["authentication"]["state"] == "warn"
    assert f"node 1 at EXTERNAL://0.0.0.0:{port}" in doctor["authentication"]["detail"]
    log = Path(yak.folder, "yak-data", "logs", "node-1.log").read_text()
    assert log.count("listeners-without-authentication") == 1


def consume_over_http(client: httpx.Client, address: str, auth: tuple[str, str]) -> None:
    """A consumer of the group API, which logs in at the brokers as the user that creates it."""
    kind = {"content-type": "application/vnd.kafka.v2+json"}
    body = {"name": "one", "format": "json", "auto.offset.reset": "earliest"}
    made = client.post(f"{address}/consumers/g", json=body, headers=kind, auth=auth)
    assert made.status_code == 200, made.text
    instance = f"{address}/consumers/g/instances/one"
    assert client.post(f"{instance}/subscription", json={"topics": ["orders"]}, headers=kind, auth=auth).is_success
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < 8 and time.monotonic() < deadline:
        accept = {"accept": "application/vnd.kafka.json.v2+json"}
        found += client.get(f"{instance}/records", params={"timeout": "2000"}, headers=accept, auth=auth).json()
    assert sorted(each["value"] for each in found) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert client.delete(instance, headers=kind, auth=auth).status_code == 204


def test_tls_and_users_reach_every_client(yak: Any) -> None:
    """Commands find the cluster's protocol and authority; HTTP asks for the same user, over HTTPS."""
    users = Path(yak.folder, "users")
    users.write_text("ann:odd-secret-of-ann\n")
    users.chmod(0o600)
    ran = yak.run("up", "-d", "--port", "0", "--brokers", "2", "--tls", "--users-file", str(users), "-o", "json",
                  "--seed-topic", "orders:4", "--metadata", "raft")  # fmt: skip
    assert ran.code == 0, ran.err
    status = ran.json
    assert (status["security_protocol"], status["listeners"]) == ("SASL_SSL", [])
    login = {"YAK_SASL_USERNAME": "ann", "YAK_SASL_PASSWORD": "odd-secret-of-ann"}
    assert yak.run("topics", "list", "-o", "json", **login).json[0]["name"] == "orders"
    assert yak.run("topics", "list").code == 2
    for words in (
        ("isr",),
        ("failover", "orders"),
        ("doctor",),
        ("cluster",),
        ("groups", "list"),
        ("quorum", "describe"),
    ):
        ran = yak.run(*words, **login)
        assert ran.code == 0, f"{words}: {ran.out}{ran.err}"
    wrong = yak.run("topics", "list", **{**login, "YAK_SASL_PASSWORD": "guessed"})
    assert wrong.code == 3
    context = ssl.create_default_context(cafile=status["ca_file"])
    with httpx.Client(verify=context, trust_env=False, timeout=20) as client:
        for broker in status["brokers"]:
            address = broker["http_address"]
            assert address.startswith("https://")
            assert client.get(f"{address}/health/live").status_code == 200
            assert client.get(f"{address}/topics").status_code == 401
            assert client.get(f"{address}/topics", auth=("ann", "guessed")).status_code == 401
            records = {"topic": "orders", "records": [{"payload": number, "partition": number} for number in range(4)]}
            answer = client.post(f"{address}/produce", json=records, auth=("ann", "odd-secret-of-ann"))
            assert answer.status_code == 200, answer.text
            rows = client.get(f"{address}/api/isr?topic=orders", auth=("ann", "odd-secret-of-ann")).json()
            assert all(len(row["log_end_offsets"]) == 2 for row in rows), rows
        consume_over_http(client, status["brokers"][1]["http_address"], ("ann", "odd-secret-of-ann"))
    assert yak.run("up", "-d", "--no-tls").code == 2
