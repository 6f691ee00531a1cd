"""Certificates that change while the broker runs."""

import errno
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import trio

from tests.unit.security.identities import Identities, make
from tests.unit.server.shell_rig import ask
from tests.unit.server.tls_rig import running_tls, secured, trusting
from yak.errors import UsageError
from yak.security.certificates import create_certificates
from yak.security.tls import Contexts, make_contexts
from yak.server.tls_listener import ListenerTls


@pytest.fixture
def own(tmp_path: Path) -> Identities:
    return make(tmp_path / "certs")


def renew(identities: Identities, hosts: list[str]) -> None:
    create_certificates(str(identities.folder), hosts, 90, [], force=True, now=datetime.now(UTC))


async def test_new_connections_get_the_new_certificate_and_old_connections_continue(own):
    async with running_tls(own.configs) as (broker, tls):
        old = await secured(broker, trusting(own))
        assert await ask(old, b"before it") == b"before it"
        renew(own, ["renewed.example"])
        assert tls.reload_if_changed()
        await ask(await secured(broker, trusting(own), host="renewed.example"), b"after it")
        assert await ask(old, b"still on") == b"still on"


async def test_watch_notices_a_new_file(own):
    tls = ListenerTls("SSL", own.configs)
    first = tls.contexts
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tls.watch, 0.01)
        renew(own, ["localhost"])
        with trio.fail_after(5):
            while tls.contexts is first:  # noqa: ASYNC110 - it sets no event
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("damage", ["empty", "missing", "expired"])
def test_unusable_tls_file_is_logged_once_and_the_old_file_stays_in_use(own, tmp_path, damage, caplog):
    tls = ListenerTls("SSL", own.configs)
    before = tls.contexts
    if damage == "empty":
        Path(own.broker).write_text("")
    elif damage == "missing":
        os.unlink(own.broker)
    else:
        expired = make(tmp_path / "expired", days=1, age_days=10)
        os.replace(expired.broker, own.broker)
    assert not tls.reload_if_changed()
    assert not tls.reload_if_changed()
    assert tls.contexts is before
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["tls-reload-failed"]
    renew(own, ["localhost"])
    assert tls.reload_if_changed()


def test_certificate_of_a_running_broker_is_warned_of_each_day_before_it_expires(tmp_path, monkeypatch, caplog):
    tls, started_ns = ListenerTls("SSL", make(tmp_path, days=90).configs), time.time_ns()
    logged = []
    for days in (1, 59, 61, 61, 62, 91, 91):
        passed_s = 86_400 * days
        clock = Mock(monotonic=Mock(return_value=time.monotonic() + passed_s))
        clock.time_ns.return_value = started_ns + passed_s * 10**9
        monkeypatch.setattr("yak.server.tls_listener.time", clock)
        caplog.clear()
        tls.reload_if_changed()
        logged.append([each.getMessage() for each in caplog.records])
    soon = ["tls-certificate-expires"]
    assert logged == [[], [], soon, [], soon, ["tls-reload-failed"], []]


def test_unchanged_files_are_not_read_again(known):
    tls = ListenerTls("SSL", known.configs)
    before = tls.contexts
    assert not tls.reload_if_changed()
    assert tls.contexts is before


def test_listener_without_a_certificate_is_refused_at_the_start():
    with pytest.raises(UsageError) as refused:
        ListenerTls("SSL", {})
    assert refused.value.code == "tls-config"


def test_overrides_replace_the_store_and_go_back(tmp_path):
    own, other = make(tmp_path / "own"), make(tmp_path / "other")
    tls = ListenerTls("EXTERNAL", own.configs)
    before = tls.contexts
    name = "listener.name.external.ssl.keystore.location"
    assert tls.reload({name: other.broker})
    assert tls.contexts is not before
    used = tls.contexts
    assert not tls.reload({name: str(tmp_path / "none.pem")})
    assert tls.contexts is used
    assert not tls.reload_if_changed()
    renew(other, ["localhost"])
    assert tls.reload_if_changed(), "the files of the last good configs are watched"
    assert tls.reload({})
    renew(own, ["localhost"])
    assert tls.reload_if_changed()


def test_overrides_that_could_not_be_used_are_tried_again_by_a_reload(tmp_path):
    own, other = make(tmp_path / "own"), make(tmp_path / "other")
    os.rename(other.broker, f"{other.broker}.later")
    tls = ListenerTls("EXTERNAL", own.configs)
    assert not tls.reload({"listener.name.external.ssl.keystore.location": other.broker})
    assert not tls.reload()
    os.rename(f"{other.broker}.later", other.broker)
    assert tls.reload()
    renew(other, ["localhost"])
    assert tls.reload_if_changed(), "the overrides are in use"
    renew(own, ["localhost"])
    assert not tls.reload_if_changed()


@pytest.mark.parametrize("location", ["broker.pem\0", "/dev/zero"])
def test_location_that_is_no_file_is_logged_and_the_old_file_stays_in_use(known, location, caplog):
    tls = ListenerTls("EXTERNAL", known.configs)
    before = tls.contexts
    assert not tls.reload({"listener.name.external.ssl.keystore.location": location})
    assert not tls.reload({"listener.name.external.ssl.truststore.location": location})
    assert tls.contexts is before
    assert [record.getMessage() for record in caplog.records] == ["tls-reload-failed"] * 2


def test_full_temporary_directory_is_logged_and_the_new_certificate_is_used_later(own, caplog, monkeypatch):
    tls = ListenerTls("SSL", own.configs)
    before = tls.contexts
    renew(own, ["localhost"])
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        assert not tls.reload_if_changed()
    assert tls.contexts is before
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["tls-reload-failed"]
    assert tls.reload_if_changed()


def test_file_that_was_read_half_written_is_read_again_when_it_is_whole(own, monkeypatch):
    tls = ListenerTls("SSL", own.configs)
    renew(own, ["localhost"])
    whole = Path(own.broker).read_bytes()
    Path(own.broker).write_bytes(whole[:100])

    def make_while_it_is_written(*args: Any) -> Contexts:
        try:
            return make_contexts(*args)
        finally:
            Path(own.broker).write_bytes(whole)

    with monkeypatch.context() as patched:
        patched.setattr("yak.server.tls_listener.make_contexts", make_while_it_is_written)
        assert not tls.reload_if_changed()
    assert tls.reload_if_changed()
