import json
import logging
import os
from collections.abc import Iterator

import pytest

from yak.commands.main import run
from yak.server.options import ServeOptions


@pytest.fixture(autouse=True)
def _same_logger() -> Iterator[None]:
    logger = logging.getLogger("yak")
    before = (logger.handlers[:], logger.propagate, logger.level, logging.raiseExceptions)
    yield
    logger.handlers[:], logger.propagate, logging.raiseExceptions = before[0], before[1], before[3]
    logger.setLevel(before[2])


def dry_run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, dict[str, object]]:
    assert run(["serve", "--dry-run", "-o", "json", *args]) == 0
    printed: dict[str, dict[str, object]] = json.loads(capsys.readouterr().out)
    return printed


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert run(["serve", *args]) == 2
    return capsys.readouterr().err


def test_a_dry_run_shows_each_value_with_its_origin(capsys, monkeypatch, tmp_path):
    (tmp_path / "server.properties").write_text(
        "node.id=5\nlisteners=PLAINTEXT://127.0.0.1:7000\nlog.dirs=/x,/y\nnum.partitions=9\n"
    )
    monkeypatch.setenv("REDIS_HOST", "redis.example")
    monkeypatch.setenv("YAK_NODE_ID", "8")
    printed = dry_run(
        capsys, "--port", "7001", "--properties", "server.properties", "-c", "auto.create.topics.enable=false"
    )
    assert printed["node_id"] == {"value": 5, "origin": "file server.properties"}
    assert printed["port"] == {"value": 7001, "origin": "flag --port"}
    assert printed["host"]["origin"] == "file server.properties"
    assert printed["data_dir"]["value"] == "/x,/y"
    assert printed["redis_url"] == {"value": "redis://redis.example:6379/0", "origin": "env REDIS_HOST=redis.example"}
    assert printed["auto.create.topics.enable"] == {"value": "false", "origin": "flag -c"}
    assert printed["num.partitions"] == {"value": "9", "origin": "file server.properties"}
    assert printed["role"] == {"value": "leader", "origin": "default"}


def test_replication_settings_are_printed_with_their_origins(capsys, monkeypatch):
    printed = dry_run(capsys)
    assert printed["lease_time_seconds"] == {"value": 6.0, "origin": "default"}
    assert printed["renew_interval_seconds"] == {"value": 0.5, "origin": "default"}
    assert printed["followers"] == {"value": "", "origin": "default"}
    assert printed["followers_timeout_seconds"] == {"value": 30.0, "origin": "default"}
    assert printed["rack"] == {"value": None, "origin": "default"}
    monkeypatch.setenv("YAK_FOLLOWERS", "b2:9093, b3")
    monkeypatch.setenv("LEASE_TIME_SECONDS", "10")
    monkeypatch.setenv("RENEW_INTERVAL_SECONDS", "5")
    monkeypatch.setenv("YAK_RACK", "zone-a")
    printed = dry_run(capsys, "--followers-timeout", "90", "--default-replication-factor", "3")
    assert printed["followers"] == {"value": "b2:9093,b3:9092", "origin": "env YAK_FOLLOWERS"}
    assert printed["followers_timeout_seconds"] == {"value": 90.0, "origin": "flag --followers-timeout"}
    assert printed["lease_time_seconds"] == {"value": 10.0, "origin": "env LEASE_TIME_SECONDS=10"}
    assert printed["renew_interval_seconds"]["value"] == 5.0
    assert printed["rack"] == {"value": "zone-a", "origin": "env YAK_RACK"}
    assert printed["default.replication.factor"] == {"value": "3", "origin": "flag --default-replication-factor"}
    monkeypatch.delenv("YAK_RACK")
    assert dry_run(capsys, "-c", "broker.rack=zone-b")["rack"] == {"value": "zone-b", "origin": "flag -c"}


@pytest.mark.parametrize(("name", "number"), [("7", 7), ("broker-2", 2), ("follower", None)])
def test_a_node_name_is_numbered_the_same_everywhere(capsys, monkeypatch, name, number):
    by_flag = dry_run(capsys, "--node-id", name)["node_id"]["value"]
    monkeypatch.setenv("BROKER_ID", name)
    assert dry_run(capsys)["node_id"]["value"] == by_flag
    assert number in (None, by_flag)


@pytest.mark.parametrize(
    ("args", "slug"),
    [
        (("--lease-time", "1s", "--renew-interval", "1s"), "lease-config"),
        (("--lease-time", "10", "--renew-interval", "6"), "lease-config"),
        (("--followers", "b2:9093,b2:9093"), "bad-followers"),
        (("--followers", "127.0.0.1:9092"), "bad-followers"),
        (("--host", "0.0.0.0"), "bad-advertised"),
        (("-c", "num.partition=4"), "bad-config"),
        (("-c", "num.partitions=many"), "bad-config"),
        (("-c", "nonsense"), "bad-config"),
        (("--dry-run", "-c", "node.id=1", "-c", "broker.id=2"), "bad-config"),
        (("-c", "ssl.key.password=" + "x" * 40_000), "bad-config"),
        (("-c", "listeners=SSL://:9093"), "bad-advertised"),
        (("-c", "listeners=OTHER://h:9093"), "bad-listeners"),
        (("--listen", "A://h:1", "--listen", "A://h:2"), "bad-listeners"),
        (("--listen", "A://0.0.0.0:1"), "bad-advertised"),
        (("--listen", "A://h:1", "--advertise", "B://h:1"), "bad-listeners"),
        (("--listen", "A://h:1", "--port", "9092"), "usage"),
        (("-c", "listeners=PLAINTEXT://h:1,SSL://h:2", "--advertised", "h:1"), "usage"),
        (("--advertise", "A://h:1"), "usage"),
        (("--properties", "absent"), "config-file"),
        (("--role", "boss"), "bad-role"),
        (("--host", "no-such-host.invalid", "--port", "0"), "bad-address"),
        (("--log-level", "loud"), "log-level"),
    ],
)
def test_invalid_serve_options_are_refused_with_an_error_in_three_parts(capsys, args, slug):
    assert refused(capsys, *args).startswith(f"error[{slug}]: ")


def test_a_port_in_use_is_refused_before_anything_is_touched(capsys, tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        reported = refused(capsys, "--port", str(other.getsockname()[1]), "--data-dir", str(tmp_path / "data"))
    assert reported.startswith("error[address-in-use]: ")
    assert not (tmp_path / "data").exists()


def test_table_of_serve_options_is_the_same_as_typers():
    from typer.main import get_command

    from yak.commands.app import typer_app
    from yak.commands.options import PREFIX
    from yak.commands.serve import FIELDS_BY_OPTION, ServeFlags, serve

    own = [each for each in get_command(typer_app(serve)).params if not str(each.name).startswith(PREFIX)]
    declared = {word: each.name for each in own for word in each.opts}
    assert declared == {word: each.name for word, each in FIELDS_BY_OPTION.items()}
    defaults = ServeFlags()
    for each in own:
        assert each.default in (None, getattr(defaults, str(each.name)))


def test_both_parsers_of_serve_arguments_agree(capsys):
    args = ["--node-id=3", "--port", "7", "--data-dir", "a", "--data-dir", "b", "-c", "num.partitions=2"]
    by_typer = dry_run(capsys, *args)
    assert run(["-o", "json", "serve", "--dry-run", *args]) == 0
    assert json.loads(capsys.readouterr().out) == by_typer


def test_a_broker_starts_without_what_it_never_uses():
    import subprocess
    import sys

    probe = (
        "import sys\nfrom yak.commands.main import run\nrun(['serve', '--dry-run'])\nimport yak.server.main\n"
        "unused = {'typer', 'pydantic', 'rich', 'redis', 'confluent_kafka', 'hypothesis', 'asyncio', 'importlib.metadata'}\n"
        "print(sorted(unused & set(sys.modules)))"
    )
    reported = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert reported.splitlines()[-1] == "[]"


@pytest.mark.parametrize("args", [["-h"], ["--port"], ["--port", "--dry-run"], ["--dry-run=1"], ["x"]])
def test_arguments_that_the_serve_table_does_not_know_are_left_to_typer(args):
    from yak.commands.serve import parse_arguments

    assert parse_arguments(args) is None


def test_secret_file_may_name_the_cluster(monkeypatch, tmp_path):
    secret = "ab" * 32
    taken: list[ServeOptions] = []
    monkeypatch.setattr("yak.server.main.run_server", taken.append)
    for text in (f"{secret}\n", f"{secret} from-redis\n"):
        (tmp_path / "file").write_text(text)
        assert run(["serve", "--metadata", "both", "--cluster-secret-file", "file"]) == 0
    assert [(each.cluster_id, each.joins_cluster) for each in taken] == [("", False), ("from-redis", True)]
    assert [(each.has_redis, each.has_quorum) for each in taken] == [(True, True)] * 2
    assert {each.cluster_secret.to_text() for each in taken if each.cluster_secret} == {secret}


@pytest.mark.parametrize("text", ["", "short", f"{'ab' * 32} id more"])
def test_invalid_secret_file_is_refused(capsys, tmp_path, text):
    (tmp_path / "file").write_text(text)
    assert "error[cluster-secret]" in refused(capsys, "--metadata", "raft", "--cluster-secret-file", "file")


def test_dry_run_shows_no_password(capsys):
    names = ("ssl.key.password", "listener.name.ssl.ssl.keystore.password")
    args = [word for name in names for word in ("-c", f"{name}=hush")]
    printed = dry_run(capsys, "-c", "listeners=SSL://127.0.0.1:0", *args)
    assert [printed[name]["value"] for name in names] == ["(set)", "(set)"]
    assert "hush" not in str(printed)


def test_listen_and_advertise_name_the_listeners(capsys):
    listen = ("--listen", "INTERNAL://10.0.0.1:9092", "--listen", "EXTERNAL://0.0.0.0:19092")
    found = dry_run(capsys, *listen, "--advertise", "EXTERNAL://localhost:19092")
    assert found["listeners"]["value"] == "INTERNAL://10.0.0.1:9092,EXTERNAL://0.0.0.0:19092"
    assert found["advertised.listeners"]["value"] == "INTERNAL://10.0.0.1:9092,EXTERNAL://localhost:19092"
    assert found["listener.security.protocol.map"]["value"].endswith(",INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT")
    assert "port" not in found


def test_listeners_in_server_properties_are_kafkas(capsys, tmp_path):
    (tmp_path / "server.properties").write_text(
        "listeners=INTERNAL://127.0.0.1:9092,EXTERNAL://:19092\n"
        "advertised.listeners=INTERNAL://127.0.0.1:9092,EXTERNAL://localhost:19092\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT\n"
        "inter.broker.listener.name=INTERNAL\n"
    )
    found = dry_run(capsys, "--properties", str(tmp_path / "server.properties"))
    assert found["listeners"]["value"] == "INTERNAL://127.0.0.1:9092,EXTERNAL://:19092"
    assert found["inter.broker.listener.name"]["value"] == "INTERNAL"


def test_secret_on_the_command_line_is_warned_of(capsys, tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("ssl.keystore.password=odd-file-secret\n")
    assert run(["serve", "--dry-run", "--properties", str(properties), "-c", "ssl.key.password=odd-secret"]) == 0
    printed = capsys.readouterr()
    assert "-c ssl.key.password has a secret" in printed.err
    assert "keystore" not in printed.err
    assert "odd-" not in printed.out + printed.err


def test_file_with_a_secret_that_any_user_can_read_is_warned_of(capsys, tmp_path):
    properties, secret = tmp_path / "server.properties", tmp_path / "cluster.secret"
    properties.write_text("num.partitions=3\n")
    secret.write_text("ab" * 32)
    args = ["serve", "--dry-run", "--metadata", "raft", "--properties", "server.properties"]
    for mode, warned in ((0o644, True), (0o640, False)):
        secret.chmod(mode)
        assert run([*args, "--cluster-secret-file", "cluster.secret"]) == 0
        assert ("cluster.secret has a secret, and any user" in capsys.readouterr().err) is warned
    for text, warned in (("", False), ("ssl.key.password=x\n", True)):
        properties.write_text(text)
        properties.chmod(0o644)
        assert run(args) == 0
        assert ("server.properties has a secret, and any user" in capsys.readouterr().err) is warned


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="--cores needs Linux")
def test_a_dry_run_with_cores_shows_each_broker_and_one_core_is_todays_broker(capsys, monkeypatch):
    printed = dry_run(capsys, "--cores", "2", "--port", "9092", "--data-dir", "/d", "--rack", "machine:db1")
    assert printed["core.1"]["value"] == "node 2, machine:db1, PLAINTEXT://127.0.0.1:9094, /d/core-1"
    assert dry_run(capsys)["cores"] == {"value": "1", "origin": "default"}
    assert set(dry_run(capsys, "--cores", "1")) == set(dry_run(capsys))
    monkeypatch.setenv("YAK_CORES", "3")
    assert set(dry_run(capsys)) - set(dry_run(capsys, "--cores", "1")) == {"core.0", "core.1", "core.2"}


def test_cores_with_the_variables_of_kafkas_image_are_refused(capsys):
    assert "error[bad-cores]: --cores and --kafka-env" in refused(capsys, "--cores", "2", "--kafka-env")


def test_data_of_several_brokers_is_refused_for_one(capsys, tmp_path):
    (tmp_path / "yak-data" / "core-0").mkdir(parents=True)
    (tmp_path / "yak-data" / "core-0" / "meta.properties").write_text("node.id=1\n")
    assert run(["serve", "--metadata", "raft"]) == 1
    assert "error[cores-data]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "slug"),
    [
        (("--log-level", "loud"), "log-level"),
        (("--log-format", "xml"), "log-format"),
        (("--redis-url", "localhost:6379"), "bad-redis-url"),
    ],
)
def test_a_dry_run_refuses_what_a_start_refuses(capsys, args, slug):
    assert f"error[{slug}]" in refused(capsys, "--dry-run", *args)


def test_a_duration_with_a_wrong_unit_is_answered_with_the_unit_of_a_bare_number(capsys):
    assert "without one it is in s" in refused(capsys, "--lease-time", "5sec")
