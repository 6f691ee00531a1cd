"""Our own Redis server: found, started on its data, stopped, and told from another program on its port."""

import os
from pathlib import Path

import pytest
import redis

from tests.errors import raises_error
from tests.listeners import answering
from yak.errors import StartRefused, UsageError
from yak.local import ports, redis_child
from yak.local.processes import is_running, kill


def test_data_written_to_redis_survives_a_kill(tmp_path):
    folder, log = str(tmp_path / "redis data"), str(tmp_path / "redis.log")
    port = ports.find_free("127.0.0.1")
    first = redis_child.start(folder, port, log)
    try:
        with redis.Redis.from_url(first.url) as client:
            client.set("name", "kept")
            settings = client.config_get("*")
            assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "always")
            assert settings["maxmemory-policy"] == "noeviction"
            assert settings["no-appendfsync-on-rewrite"] == "no"
            assert settings["save"] == ""
            assert settings["bind"] == "127.0.0.1"
    finally:
        assert kill(first.process)
    second = redis_child.start(folder, port, log)
    try:
        with redis.Redis.from_url(second.url) as client:
            assert client.get("name") == b"kept"
    finally:
        assert redis_child.stop(second.process)
    assert not is_running(second.process)


def test_folder_with_a_line_end_in_its_name_is_one_line_of_the_settings():
    assert b'dir "/a\\nb \\"c\\""' in redis_child._settings('/a\nb "c"', 1, "").splitlines()


def test_redis_that_cannot_start_is_reported_with_its_own_message(tmp_path):
    folder, log = tmp_path / "redis", tmp_path / "redis.log"
    (folder / "appendonlydir").mkdir(parents=True)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with raises_error(StartRefused, "redis-ended") as caught:
        redis_child.start(str(folder), ports.find_free("127.0.0.1"), str(log))
    assert caught.value.why


def test_another_program_on_the_port_is_not_taken_for_ours(tmp_path):
    with answering(lambda _: b"+PONG\r\n") as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(StartRefused):
            redis_child.start(str(tmp_path / "redis"), port, str(tmp_path / "redis.log"))


def test_the_program_is_the_named_one_or_the_carried_one_or_one_on_path(tmp_path, monkeypatch):
    named = tmp_path / "my-redis"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("YAK_REDIS_SERVER", str(named))
    assert redis_child.find_server() == str(named)
    monkeypatch.setenv("YAK_REDIS_SERVER", "/missing")
    with raises_error(UsageError, "no-redis-server"):
        redis_child.find_server()
    monkeypatch.delenv("YAK_REDIS_SERVER")
    assert redis_child.find_server().endswith("valkey-server")
    monkeypatch.setattr(redis_child, "_carried_server", lambda: None)
    named.rename(tmp_path / "redis-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis_child.find_server() == str(tmp_path / "redis-server")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="no Redis server to start"):
        redis_child.find_server()


def test_the_one_file_executable_runs_a_copy_that_outlives_its_bundle(tmp_path, monkeypatch):
    folder = tmp_path / "redis"
    folder.mkdir()
    found = carried_by(tmp_path / "_MEIa1b2c3", monkeypatch)
    copy = redis_child._lasting_copy(found, str(folder))
    assert copy == str(folder / "valkey-server")
    assert os.access(copy, os.X_OK)
    assert redis_child._lasting_copy("/usr/bin/redis-server", str(folder)) == "/usr/bin/redis-server"


def test_the_executable_in_a_folder_runs_its_server_from_there(tmp_path, monkeypatch):
    found = carried_by(tmp_path / "_internal", monkeypatch)
    assert redis_child._lasting_copy(found, str(tmp_path)) == found


def carried_by(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server in an executable's bundle, found by `find_server`."""
    carried = bundle / "yakbin" / "valkey-server"
    carried.parent.mkdir(parents=True)
    carried.write_text("#!/bin/sh\n")
    carried.chmod(0o755)
    monkeypatch.setattr(redis_child.sys, "_MEIPASS", str(bundle), raising=False)
    monkeypatch.delenv("YAK_REDIS_SERVER", raising=False)
    found = redis_child.find_server()
    assert found == str(carried)
    return found


def test_only_the_socket_that_was_made_for_the_server_is_removed(tmp_path):
    """The address may have come with a cloned directory."""
    folder, foreign, made = tmp_path / "redis", tmp_path / "keys", tmp_path / "yak-1"
    for each in (folder, foreign, made):
        each.mkdir()
        (each / "redis.sock").touch()
    (folder / "id_ed25519").touch()
    for path in (foreign / "redis.sock", folder / "id_ed25519", folder / "redis.sock", made / "redis.sock"):
        redis_child.forget_socket(str(path), str(folder))
    assert (foreign / "redis.sock").exists()
    assert [each.name for each in folder.iterdir()] == ["id_ed25519"]
    assert not made.exists()
