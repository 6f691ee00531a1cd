"""Options, and the listening socket."""

import contextlib
import socket

import pytest

from tests.errors import raises_error
from yak.errors import UsageError, YakError
from yak.limits import UI_SESSIONS_MAX, UI_UPLOAD_BYTES_MAX
from yak.tui.web import options, server, session
from yak.tui.web.options import WebOptions, address_of, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_host_needs_no_further_options(host):
    WebOptions(host=host).check()
    assert WebOptions(host=host).warning() is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1"])
def test_remote_clients_need_a_token_or_readonly(host):
    with raises_error(UsageError, "open-to-all") as refused:
        WebOptions(host=host).check()
    assert refused.value.exit_code == 2
    assert [line.split("--")[-1].split()[0] for line in refused.value.try_] == ["token", "readonly"]
    WebOptions(host=host, token="a-long-token").check()
    WebOptions(host=host, readonly=True).check()


def test_remote_access_prints_a_warning():
    assert "can read" in (WebOptions(host="0.0.0.0", readonly=True).warning() or "")
    assert "6 characters can be guessed" in (WebOptions(host="0.0.0.0", token="s3cret").warning() or "")
    assert "nothing is encrypted" in (WebOptions(host="0.0.0.0", token="a-long-token").warning() or "")


@pytest.mark.parametrize("token", ["", "a\nb", "geheimnis\u00e4", "\x00"])
def test_a_token_that_no_address_can_hold_is_refused(token):
    with raises_error(UsageError, "bad-token"):
        WebOptions(token=token).check()


@pytest.mark.parametrize("host", ["no such host", ""])
def test_a_name_without_an_address_is_said(host):
    with raises_error(UsageError, "unknown-host"):
        is_loopback(host)


@pytest.mark.parametrize(
    ("host", "token", "address"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8090/"),
        ("0.0.0.0", None, "http://127.0.0.1:8090/"),
        ("::", None, "http://[::1]:8090/"),
        ("::1", None, "http://[::1]:8090/"),
        ("box", "a&b=c /?", "http://box:8090/?token=a%26b%3Dc%20%2F%3F"),
    ],
)
def test_the_address_can_be_clicked_on(host, token, address):
    assert address_of(host, 8090, token) == address


def test_the_bounds_are_those_of_the_contract():
    assert WebOptions().sessions_max == UI_SESSIONS_MAX == 16
    assert UI_UPLOAD_BYTES_MAX == 64 * 1024 * 1024
    # A deaf app: asked, killed, its pipes' ends, and what the server itself takes to close. Ctrl+C promises two seconds.
    assert session.QUIT_SECONDS + 2 * session._KILLED_SECONDS + server._SHUTDOWN_SECONDS <= 2


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_any_port_is_any_and_a_name_is_bound_where_its_address_leads():
    with options.bind("localhost", 0) as listener:
        assert port_of(listener) > 0
        assert listener.getsockname()[0] == "127.0.0.1"


def test_given_port_in_use_is_refused_with_its_owner():
    with options.bind("127.0.0.1", 0) as first, raises_error(UsageError, "port-in-use") as refused:
        options.bind("127.0.0.1", port_of(first))
    assert "listens there" in refused.value.why


def test_without_a_port_the_next_free_one_is_taken(monkeypatch):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(options.bind("127.0.0.1", 0))
        monkeypatch.setattr(options, "PORT", port_of(first))
        found = stack.enter_context(options.bind("127.0.0.1", None))
        assert 0 < port_of(found) - port_of(first) <= options._TRIED_MAX


def test_an_address_of_another_machine_is_refused():
    with raises_error(UsageError, "cannot-listen"):
        options.bind("192.0.2.1", 0)


def test_a_name_without_an_address_is_refused():
    with raises_error(UsageError, "unknown-host"):
        options.bind("no such host", 0)


def test_certificate_makes_a_context_and_ends_the_warning(known):
    encrypted = WebOptions(host="0.0.0.0", token="a-long-token", certificate=known.broker)
    assert encrypted.warning() is None
    assert encrypted.context() is not None
    assert address_of("127.0.0.1", 8090, is_encrypted=True) == "https://127.0.0.1:8090/"
    assert WebOptions().context() is None


def test_certificate_that_cannot_be_used_is_refused(tmp_path):
    with pytest.raises(YakError) as refused:
        WebOptions(certificate=str(tmp_path / "none.pem")).context()
    assert "none.pem" in refused.value.message
