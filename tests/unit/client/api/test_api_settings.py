"""Who is asked, and which settings are left to the caller."""

import pytest

from tests.errors import raises_error
from yak.client.api.settings import check_config, find_bootstrap, handle_config
from yak.errors import Unreachable, UsageError


def test_the_variable_counts_only_where_nothing_is_given(monkeypatch):
    monkeypatch.delenv("YAK_BOOTSTRAP_SERVERS", raising=False)
    assert find_bootstrap(None) == "127.0.0.1:9092"
    monkeypatch.setenv("YAK_BOOTSTRAP_SERVERS", "b1:1, b2")
    assert find_bootstrap(None) == "b1:1,b2:9092"
    assert find_bootstrap("c:7") == "c:7"
    assert find_bootstrap(["c:7", "d"]) == "c:7,d:9092"
    monkeypatch.setenv("YAK_BOOTSTRAP_SERVERS", "")
    assert find_bootstrap(None) == "127.0.0.1:9092"


@pytest.mark.parametrize("bad", ["", "host:", "host:http", []])
def test_an_address_that_is_none_is_refused_by_name(bad):
    with raises_error(UsageError, "bad-address") as refused:
        find_bootstrap(bad)
    assert refused.value.why


@pytest.mark.parametrize("bad", [5, b"host:1", [5]])
def test_an_address_of_another_type_is_refused(bad):
    with pytest.raises(UsageError, match=r"^bootstrap=.* names no broker"):
        find_bootstrap(bad)


def test_a_bad_variable_is_named(monkeypatch):
    monkeypatch.setenv("YAK_BOOTSTRAP_SERVERS", "host:x")
    with pytest.raises(UsageError, match="YAK_BOOTSTRAP_SERVERS"):
        find_bootstrap(None)


@pytest.mark.parametrize("name", ["bootstrap.servers", "group.id", "enable.auto.commit", "enable.auto.offset.store"])
def test_settings_that_the_api_manages_cannot_be_overridden(name):
    with pytest.raises(UsageError) as refused:
        check_config({"fetch.min.bytes": 1, name: "x"})
    assert f'"{name}"' in refused.value.message
    assert refused.value.why


def test_other_settings_of_librdkafka_win():
    made = handle_config("h:1", "me", {"reconnect.backoff.ms": 7}, timeout_s=1, is_known=True)
    assert (made["bootstrap.servers"], made["client.id"], made["reconnect.backoff.ms"]) == ("h:1", "me", 7)


def test_unreachable_broker_is_reported_at_once_and_with_advice(closed_port):
    with raises_error(Unreachable, "unreachable") as refused:
        handle_config(f"127.0.0.1:{closed_port}", "me", {}, timeout_s=0.2, is_known=False)
    assert any("yak up -d" in note for note in refused.value.__notes__)


def test_a_plain_question_is_not_put_to_an_encrypted_port(closed_port):
    made = handle_config(f"127.0.0.1:{closed_port}", "me", {"security.protocol": "SSL"}, timeout_s=0.2, is_known=False)
    assert made["security.protocol"] == "SSL"


@pytest.fixture
def closed_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
