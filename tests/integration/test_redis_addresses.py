"""Every kind of address a Redis may have, with a real server behind it; and Redis servers that a broker must not begin with."""

import os
import shutil
import ssl
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
import trio
from support.tls import Certificates
from support.tls_proxy import tls_proxy

from yak.core.events import StoreConnected, StoreLost, StoreReplied
from yak.errors import StartRefused
from yak.local import ports, redis_child
from yak.local.redis_child import RunningRedis
from yak.local.redis_server import EmbeddedRedis
from yak.ports.metadata_store import StoreRequest
from yak.server.redis_store import RedisStore

PASSWORD = "s3cret:/@"
QUOTED = "s3cret%3A%2F%40"


def met(url: str, **more: bool) -> StoreConnected | StoreLost:
    """What a broker's client says first of this address; where it is connected, a script is run too."""
    events: list[object] = []

    async def main() -> None:
        with trio.move_on_after(10):
            async with trio.open_nursery() as nursery:
                changed = trio.Event()
                store = RedisStore(url, namespace=uuid.uuid4().hex, **more)

                def post(event: object) -> None:
                    events.append(event)
                    if isinstance(event, StoreConnected):
                        names = {"new_cluster_id": "c", "new_incarnation_id": "i", "node_id": 1}
                        store.submit(1, StoreRequest("bootstrap", names))
                    else:
                        changed.set()

                nursery.start_soon(store.run, post)
                await changed.wait()
                nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    assert events, "nothing in ten seconds"
    if isinstance(events[-1], StoreReplied):
        assert events[-1].outcome.code == "OK", events
    return events[0]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Unix socket paths are short: not below pytest's long directories.
    made = Path(tempfile.mkdtemp(prefix="yak-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningRedis]:
    """On a TCP port, with a password for everybody and a user of its own."""
    running = redis_child.start(str(folder / "tcp"), ports.find_free("127.0.0.1"), str(folder / "tcp.log"))
    with redis_py.Redis.from_url(running.url) as client:
        client.execute_command("ACL", "SETUSER", "yak", "on", f">{PASSWORD}", "~*", "&*", "+@all")
        client.config_set("requirepass", PASSWORD)
    yield running
    redis_child.stop(running.process)


def where(running: RunningRedis) -> str:
    return running.url.removeprefix("redis://").partition("/")[0]


@pytest.mark.parametrize("login", [f":{QUOTED}@", f"default:{QUOTED}@", f"yak:{QUOTED}@"])
def test_a_password_and_a_user(server, login):
    assert isinstance(met(f"redis://{login}{where(server)}/0"), StoreConnected)


@pytest.mark.parametrize("login", ["", ":wrong@", "yak:wrong@", f"nobody:{QUOTED}@"])
def test_wrong_redis_password_is_reported(server, login):
    lost = met(f"redis://{login}{where(server)}/0")
    assert isinstance(lost, StoreLost)
    assert any(word in lost.reason for word in ("NOAUTH", "WRONGPASS"))
    assert "wrong" not in lost.reason.lower().replace("wrongpass", "")


def test_a_unix_socket_with_and_without_a_password(folder):
    with EmbeddedRedis(str(folder / "unix")) as embedded:
        assert isinstance(met(embedded.url), StoreConnected)
        with redis_py.Redis.from_url(embedded.url) as client:
            client.execute_command("ACL", "SETUSER", "yak", "on", f">{PASSWORD}", "~*", "&*", "+@all")
            client.config_set("requirepass", PASSWORD)
        path = embedded.url.removeprefix("unix://")
        assert isinstance(met(embedded.url), StoreLost)
        for url in (f"unix://:{QUOTED}@{path}", f"unix://yak:{QUOTED}@{path}?db=1"):
            assert isinstance(met(url), StoreConnected), url
        with redis_py.Redis(unix_socket_path=path, password=PASSWORD) as client:
            client.config_set("requirepass", "")


# ------------------------------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificates(folder: Path) -> Path:
    """The folder with ca.pem and broker.pem, of an authority that no system trusts."""
    return Certificates(folder / "certs").folder


@pytest.fixture(scope="module")
def tls_port(certificates: Path, server: RunningRedis) -> Iterator[int]:
    """TLS before the real server, whose own build may have none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "broker.pem")
    with tls_proxy(context, int(where(server).rpartition(":")[2])) as port:
        yield port


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_tls_with_a_certificate_that_was_named(tls_port, certificates, host):
    url = f"rediss://yak:{QUOTED}@{host}:{tls_port}/0?ssl_ca_certs={certificates}/ca.pem"
    assert isinstance(met(url), StoreConnected)


def test_tls_with_a_certificate_that_the_system_trusts(tls_port, certificates, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    assert isinstance(met(f"rediss://:{QUOTED}@localhost:{tls_port}/0"), StoreConnected)


def test_tls_with_an_untrusted_certificate_is_refused(tls_port):
    lost = met(f"rediss://:{QUOTED}@localhost:{tls_port}/0")
    assert isinstance(lost, StoreLost)
    assert "certificate verify failed" in lost.reason


# -------------------------------------------------------------------------------------------------------- replicas


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[RunningRedis, RunningRedis]]:
    """A Redis and its replica."""
    made = [
        redis_child.start(str(folder / name), ports.find_free("127.0.0.1"), str(folder / f"{name}.log"))
        for name in ("first", "second")
    ]
    host, port = where(made[0]).split(":")
    with redis_py.Redis.from_url(made[1].url) as client:
        client.replicaof(host, port)
    with redis_py.Redis.from_url(made[0].url) as client:
        while not client.info()["connected_slaves"]:
            pass
    yield made[0], made[1]
    for running in made:
        redis_child.stop(running.process)


def test_a_redis_with_replicas_and_a_replica_are_refused_unless_allowed(pair):
    first, second = pair
    for running, words in ((first, "it has 1 replicas"), (second, "it is a slave")):
        with pytest.raises(StartRefused) as refused:
            met(running.url, allow_replicas=False)
        assert refused.value.code == "metadata-store-replicated"
        assert words in refused.value.why
        assert "cannot recover from it" in refused.value.why
    allowed = met(first.url, allow_replicas=True)
    assert isinstance(allowed, StoreConnected)
    assert any("a failover may lose" in words for words in allowed.unsafe)


def test_a_broker_does_not_start_on_a_redis_with_replicas(pair, tmp_path, yak):
    words = ("serve", "--port", "0", "--data-dir", str(tmp_path / "data"), "--redis-url", pair[0].url)
    ran = yak.run(*words)
    assert ran.code == 1
    assert "error[metadata-store-replicated]" in ran.err
    assert "--allow-unsafe-redis" in ran.err


def test_a_sentinel_is_no_redis(folder):
    program = redis_child._carried_server() or shutil.which("redis-server")
    if program is None:
        pytest.skip("no server to be a Sentinel")
    port = ports.find_free("127.0.0.1")
    config = folder / "sentinel.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\ndir {folder}\n", "utf-8")
    process = subprocess.Popen([program, str(config), "--sentinel"], stdout=subprocess.DEVNULL, env=dict(os.environ))
    try:
        for _ in range(200):
            lost = met(f"redis://127.0.0.1:{port}/0")
            if isinstance(lost, StoreLost) and "Sentinel" in lost.reason:
                return
        raise AssertionError(lost)
    finally:
        process.kill()
        process.wait()
