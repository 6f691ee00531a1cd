"""`yak up --listen`, `--tls` and `--users-file`: which listeners each broker gets, and which are refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.config.listeners import Listeners
from yak.errors import UsageError
from yak.local import listeners, ports
from yak.local.cluster_plan import UpSettings, plan
from yak.local.state import ClusterState, ListenerOptions, RedisState, load, save
from yak.local.status import status_of
from yak.security.certificates import create_certificates, read_certificates
from yak.server.listening_sockets import bind

LISTEN, ADVERTISE = ("EXTERNAL://0.0.0.0:19092",), ("EXTERNAL://broker.example:29092",)
FIRST_EPHEMERAL_PORT = 32_768


@pytest.fixture(autouse=True)
def _these_ports_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens in these tests, and a test beside them may have one of these ports."""
    fixed = {19092, 19093, 19094}
    is_free = ports.is_free
    monkeypatch.setattr(ports, "is_free", lambda host, port: port in fixed or is_free(host, port))


def planned(folder: Path, brokers: int = 2, **settings: object) -> ClusterState:
    known = ClusterState(str(folder), RedisState(""))
    plan(known, UpSettings(port=0, http_port=0, brokers=brokers, **settings))  # type: ignore[arg-type]
    return known


def refusal(folder: Path, **settings: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        planned(folder, **settings)  # type: ignore[arg-type]
    return caught.value


def arguments_of(known: ClusterState, node_id: int) -> list[str]:
    return list(listeners.serve_arguments(known, known.brokers[node_id - 1]))


def test_plain_cluster_needs_no_listener_arguments(tmp_path):
    known = planned(tmp_path)
    assert arguments_of(known, 1) == []
    assert status_of(str(tmp_path), known).listeners == ()


def test_free_ports_of_a_cluster_are_no_ephemeral_ones_that_another_process_gets_during_a_restart(tmp_path):
    chosen = [port for each in planned(tmp_path).brokers for port in (each.port, each.http_port)]
    assert len(set(chosen)) == len(chosen)
    assert all(port is not None and 0 < port < FIRST_EPHEMERAL_PORT for port in chosen), chosen


def test_broker_k_has_both_ports_plus_k_minus_one(tmp_path):
    known = planned(tmp_path, brokers=3, listen=LISTEN, advertise=ADVERTISE)
    arguments = arguments_of(known, 3)
    assert arguments[:6] == [
        *("--listen", f"PLAINTEXT://127.0.0.1:{known.brokers[2].port}"),
        *("--listen", "EXTERNAL://0.0.0.0:19094"),
        *("--advertise", "EXTERNAL://broker.example:29094"),
    ]
    assert status_of(str(tmp_path), known).listeners == tuple(
        f"EXTERNAL://broker.example:{port}" for port in (29092, 29093, 29094)
    )


@pytest.mark.parametrize(
    ("tls", "users_file", "protocol"),
    [(False, None, "PLAINTEXT"), (True, None, "SSL"), (False, "u", "SASL_PLAINTEXT"), (True, "u", "SASL_SSL")],
)
def test_every_listener_has_the_protocol_of_tls_and_users(tmp_path, tls, users_file, protocol):
    known = planned(tmp_path, listen=LISTEN, advertise=ADVERTISE, tls=tls, users_file=users_file)
    arguments = arguments_of(known, 1)
    configs = dict(arguments[index + 1].partition("=")[::2] for index, word in enumerate(arguments) if word == "-c")
    given_listeners = [arguments[index + 1] for index, word in enumerate(arguments) if word == "--listen"]
    found = Listeners.from_settings(
        {**configs, "listeners": ",".join(given_listeners), "advertised.listeners": given_listeners[0]}
    )
    assert [each.security_protocol for each in found.bound] == [protocol, protocol]
    assert ("yak.http.security.protocol" in configs) == tls
    assert configs.get("yak.http.authentication") == ("basic" if users_file else None)
    assert ("--users-file" in arguments) == bool(users_file)


def test_config_of_the_user_goes_before_the_own_one(tmp_path):
    known = planned(tmp_path, tls=True, users_file="u", configs=("yak.http.authentication=none",))
    assert "yak.http.authentication=basic" not in arguments_of(known, 1)


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({"listen": ("EXTERNAL://0.0.0.0:0",), "advertise": ADVERTISE}, "up-listeners", "between 1 and 65535"),
        ({"listen": LISTEN, "advertise": ("EXTERNAL://b:0",)}, "up-listeners", "between 1 and 65535"),
        ({"listen": ("EXTERNAL://127.0.0.1:65535",)}, "up-listeners", "broker 2 cannot have a port"),
        ({"listen": ("EXTERNAL://h:" + "9" * 5_000,)}, "up-listeners", "NAME://HOST:PORT"),
        ({"listen": ("EXTERNAL",)}, "up-listeners", "NAME://HOST:PORT"),
        ({"listen": ("EXTERNAL://127.0.0.1",)}, "up-listeners", "NAME://HOST:PORT"),
        ({"listen": ("PLAINTEXT://127.0.0.1:19092",)}, "up-listeners", "another name"),
        ({"listen": ("SSL://127.0.0.1:19092",), "tls": True}, "up-listeners", "another name"),
        ({"listen": ("A://127.0.0.1:19092", "B://127.0.0.1:19093")}, "up-listeners", "same port 19093"),
        (
            {"listen": ("A://127.0.0.1:19092", "B://127.0.0.1:19192"), "advertise": ("A://b:1", "B://b:2")},
            "up-listeners",
            "same port 2",
        ),
        ({"advertise": ADVERTISE}, "up-listeners", "--advertise goes with --listen"),
        ({"listen": LISTEN}, "bad-advertised", "0.0.0.0"),
        ({"listen": LISTEN, "advertise": ("OTHER://b:1",)}, "bad-listeners", "OTHER is no listener"),
        ({"listen": LISTEN, "advertise": ADVERTISE, "configs": ("listeners=X://:1",)}, "up-listeners", "exclude"),
        ({"tls": True, "configs": ("listeners=PLAINTEXT://:1",)}, "up-listeners", "excludes"),
    ],
)
def test_listeners_that_cannot_be_are_refused(tmp_path, settings, code, text):
    error = refusal(tmp_path, **settings)
    assert error.code == code
    assert text in f"{error.message} {error.why}"
    assert error.try_[0].startswith("yak up --listen ")


def test_port_of_another_program_is_refused(tmp_path):
    with bind("127.0.0.1", 0)[0] as held:
        held.listen(1)
        port = held.getsockname()[1]
        error = refusal(tmp_path, brokers=1, listen=(f"EXTERNAL://127.0.0.1:{port}",))
    assert error.code == "port-in-use"


def test_own_and_http_ports_avoid_those_of_further_listeners(tmp_path, monkeypatch):
    # another test may have one of the ports of this one
    monkeypatch.setattr(ports, "is_free", lambda _host, _port: True)
    base = ports.find_lasting("127.0.0.1")
    known = ClusterState(str(tmp_path), RedisState(""))
    settings = UpSettings(port=base, http_port=base + 500, brokers=2, listen=(f"A://127.0.0.1:{base + 1}",))
    plan(known, settings)
    assert known.brokers[0].port == base
    assert known.brokers[1].port != base + 1
    taken = (f"A://127.0.0.1:{base + 1}",)
    with pytest.raises(UsageError) as caught:
        plan(ClusterState(str(tmp_path), RedisState("")), UpSettings(port=base + 1, listen=taken))
    assert "--port and A of broker 1 would have the same port" in caught.value.message


def test_settings_stay_until_they_are_given_again(tmp_path):
    known = planned(tmp_path, listen=LISTEN, advertise=ADVERTISE, tls=True, users_file="u")
    before = known.exposed
    plan(known, UpSettings(port=0))
    assert known.exposed == before
    save(known)
    loaded = load(str(tmp_path))
    assert loaded is not None
    assert loaded.exposed == before
    plan(known, UpSettings(port=0, listen=(), tls=False, users_file=listeners.NONE))
    assert known.exposed == ListenerOptions()


def test_certificate_names_this_machine_and_the_advertised_hosts_and_is_reused(tmp_path):
    known = planned(tmp_path, listen=LISTEN, advertise=ADVERTISE, tls=True)
    listeners.make_certificates(known)
    path = tmp_path / "certs" / "broker.pem"
    first = path.read_bytes()
    (found,) = read_certificates(str(path))
    assert {"localhost", "127.0.0.1", "::1", "broker.example"} <= set(found.names)
    listeners.make_certificates(known)
    assert path.read_bytes() == first
    authority = (tmp_path / "certs" / "ca.pem").read_bytes()
    known.exposed = ListenerOptions(LISTEN, ("EXTERNAL://renamed.example:29092",), tls=True)
    listeners.make_certificates(known)
    assert "renamed.example" in read_certificates(str(path))[0].names
    assert (tmp_path / "certs" / "ca.pem").read_bytes() == authority


def test_certificate_of_a_time_when_the_clock_was_ahead_is_not_used(tmp_path):
    known = planned(tmp_path, tls=True)
    listeners.make_certificates(known)
    folder, tomorrow = tmp_path / "certs", datetime.now(UTC) + timedelta(days=1)
    hosts = list(read_certificates(str(folder / "broker.pem"))[0].names)
    (folder / "ca.pem").unlink()
    (folder / "ca.key").unlink()
    create_certificates(str(folder), hosts, 365, [], force=True, now=tomorrow)
    with pytest.raises(UsageError) as refused:
        listeners.make_certificates(known)
    assert refused.value.code == "certs-not-valid"


@given(st.integers(1, 65_535), st.integers(1, 12), st.integers(1, 65_535))
def test_no_two_brokers_share_a_port_when_the_plan_is_accepted(base, brokers, other):
    known = ClusterState("/nowhere", RedisState(""))
    known.exposed = ListenerOptions((f"A://127.0.0.1:{base}", f"B://127.0.0.1:{other}"))
    from yak.local.cluster_plan import _new_broker

    known.brokers = [_new_broker(known, node_id, "leader", ()) for node_id in range(1, brokers + 1)]
    fits = max(base, other) + brokers - 1 <= 65_535
    try:
        listeners.check(known)
    except UsageError:
        assert not fits or abs(base - other) < brokers
    else:
        assert fits
        assert len(listeners.taken_ports(known)) == 2 * brokers
