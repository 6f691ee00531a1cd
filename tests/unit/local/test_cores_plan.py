"""How a machine is shared out to the brokers of `yak serve --cores`, and what is refused."""

import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.config.listeners import Listeners
from yak.errors import StartRefused, UsageError
from yak.limits import REQUEST_MEMORY_BYTES_MIN
from yak.local import ports
from yak.local.cores.plan import MachinePlan, check_data, hold_port, parse_cores, plan_machine
from yak.quorum.voters import VoterSet
from yak.server.options import ServeOptions

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="--cores needs Linux")
MANY_BYTES = 64 * REQUEST_MEMORY_BYTES_MIN


def as_asked(_host: str, port: int, _is_shared: bool) -> int:
    return port


def plan(cores: int = 2, **options: object) -> MachinePlan:
    return plan_machine(ServeOptions(**options), cores, as_asked)  # type: ignore[arg-type]


def refusal(cores: int = 2, **options: object) -> UsageError:
    with raises_error(UsageError, "bad-cores") as caught:
        plan(cores, **options)
    assert caught.value.why
    return caught.value


def named(text: str, advertised: str = "") -> Listeners:
    protocols = "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    settings = {"listeners": text, "listener.security.protocol.map": protocols}
    return Listeners.from_settings(settings | ({"advertised.listeners": advertised} if advertised else {}))


@pytest.mark.parametrize("text", ["0", "-1", "65", "1.5", "two", "", "²", "9" * 5_000])
def test_cores_that_are_no_number_of_brokers_are_refused(text):
    with raises_error(UsageError, "bad-cores"):
        parse_cores(text)


def test_cores_auto_is_the_number_of_cores_that_the_process_may_use():
    assert parse_cores("auto") == len(os.sched_getaffinity(0))
    assert (parse_cores("3"), parse_cores("1")) == (3, 1)


def test_brokers_of_a_machine_have_ids_ports_and_directories_of_their_own():
    found = plan(3, node_id=7, port=9092, http_port=8080, data_dirs=("/a", "/b"))
    assert [str(each) for each in found.bootstrap] == ["PLAINTEXT://127.0.0.1:9092"]
    assert [each.node_id for each in found.brokers] == [7, 8, 9]
    assert [each.address for each in found.brokers] == ["127.0.0.1:9093", "127.0.0.1:9094", "127.0.0.1:9095"]
    assert [each.http_port for each in found.brokers] == [8080, 8081, 8082]
    assert found.brokers[1].data_dirs == ("/a/core-1", "/b/core-1")
    assert found.rack.startswith("machine:")
    assert found.configs["yak.bootstrap.listeners"] == "PLAINTEXT://127.0.0.1:9092"


def test_advertised_port_of_each_broker_follows_the_given_one():
    found = plan(2, host="0.0.0.0", port=9092, advertised_host="db1", advertised_port=19092)
    assert [each.address for each in found.brokers] == ["db1:19093", "db1:19094"]
    found = plan(2, host="0.0.0.0", port=9092, advertised_host="db1")
    assert [each.address for each in found.brokers] == ["db1:9093", "db1:9094"]


def test_every_advertised_listener_has_a_shared_port_and_the_controllers_have_none():
    listeners = named(
        "PLAINTEXT://10.0.0.1:9092,EXTERNAL://:19092,CONTROLLER://10.0.0.1:9292",
        "PLAINTEXT://10.0.0.1:9092,EXTERNAL://db1:29092",
    )
    found = plan_machine(ServeOptions().of_listeners(listeners), 2, as_asked)
    assert [each.port for each in found.bootstrap] == [9092, 19092]
    second = found.brokers[1].listeners
    assert [str(each) for each in second.bound] == [
        "PLAINTEXT://10.0.0.1:9094",
        "EXTERNAL://:19094",
        "CONTROLLER://10.0.0.1:9294",
    ]
    assert [str(each) for each in second.advertised] == ["PLAINTEXT://10.0.0.1:9094", "EXTERNAL://db1:29094"]


@given(cores=st.integers(2, 64), port=st.integers(1, 65_535), http_port=st.integers(1, 65_535))
def test_planned_ports_are_different_and_valid_or_the_plan_is_refused(cores, port, http_port):
    last = max(port + cores, http_port + cores - 1)
    if last > 65_535 or port - cores < http_port <= port + cores:
        refusal(cores, port=port, http_port=http_port)
        return
    found = plan(cores, port=port, http_port=http_port)
    own = [each.port for broker in found.brokers for each in broker.listeners.bound]
    every = [port, *own, *(broker.http_port or 0 for broker in found.brokers)]
    assert len(set(every)) == len(every)
    assert all(0 < each <= 65_535 for each in every)


@given(cores=st.integers(2, 64))
def test_brokers_share_the_memory_of_one(cores):
    configs = {"queued.max.request.bytes": str(MANY_BYTES), "log.cleaner.dedupe.buffer.size": str(2**30)}
    shared = plan(cores, configs=configs).configs
    assert int(shared["queued.max.request.bytes"]) == max(MANY_BYTES // cores, REQUEST_MEMORY_BYTES_MIN)
    assert int(shared["log.cleaner.dedupe.buffer.size"]) == 2**30 // cores


def test_rack_that_is_no_machine_is_refused_and_a_named_machine_is_taken():
    assert "rack az1" in refusal(rack="az1").message
    assert plan(rack="machine:db1").rack == "machine:db1"


def test_node_ids_and_shared_ports_that_cannot_be_are_refused():
    assert "leaves no ids" in refusal(node_id=2**31 - 1).message
    assert "yak.bootstrap.listeners" in refusal(configs={"yak.bootstrap.listeners": "PLAINTEXT://127.0.0.1:1"}).message


def test_quorum_of_a_machine_has_one_voter_and_a_secret_for_all():
    found = plan(3, metadata="raft", port=9092, data_dirs=("/a",))
    assert (found.voters, found.secret_file) == ("1@127.0.0.1:9093", "/a/cluster.secret")
    assert plan(3).voters is None


@pytest.mark.parametrize(
    ("voters", "says"),
    [
        ("1@127.0.0.1:9093,2@127.0.0.1:9094,9@db9:9093", "on one machine"),
        ("1@127.0.0.1:9092,9@db9:9093", "does not listen there"),
    ],
)
def test_voters_that_would_die_together_or_are_at_the_shared_port_are_refused(voters, says):
    assert says in refusal(metadata="raft", port=9092, voters=VoterSet.parse(voters)).message


def test_voters_of_several_machines_are_taken():
    voters = "1@127.0.0.1:9093,3@db2:9093,5@db3:9093"
    assert plan(2, metadata="raft", port=9092, voters=VoterSet.parse(voters)).voters == voters


def meta(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "meta.properties").write_text("node.id=1\n")


def test_data_of_one_broker_is_refused_for_several_and_of_several_for_one(tmp_path):
    meta(tmp_path / "one")
    meta(tmp_path / "three" / "core-0")
    meta(tmp_path / "three" / "core-2")
    for folder, cores in (("one", 2), ("three", 1), ("three", 2)):
        with raises_error(StartRefused, "cores-data"):
            check_data([str(tmp_path / folder)], cores)
    for folder, cores in (("one", 1), ("three", 3), ("three", 4), ("none", 2)):
        check_data([str(tmp_path / folder)], cores)


@pytest.mark.parametrize(
    ("indices", "cores", "remedy"),
    [((0,), 1, "yak serve --data-dir {}/core-0 "), ((0, 1, 2), 2, "rm -r {}/core-2 "), ((0, 1), 1, "rm -r {}/core-1 ")],
)
def test_data_of_removed_brokers_is_refused_with_a_remedy_that_helps(tmp_path, indices, cores, remedy):
    for index in indices:
        meta(tmp_path / f"core-{index}")
    with pytest.raises(StartRefused) as caught:
        check_data([str(tmp_path)], cores)
    assert any(remedy.format(tmp_path) in each for each in caught.value.try_)
    assert "1 brokers" not in caught.value.message


def test_http_port_that_the_user_did_not_choose_moves_when_it_is_taken():
    def taken(_host: str, port: int, _is_shared: bool) -> int:
        if port == 8081:
            raise UsageError("address-in-use", "taken")
        return port

    options = ServeOptions(http_port=8080, http_port_may_move=True)
    assert [each.http_port for each in plan_machine(options, 2, taken).brokers] == [8080, 0]
    with pytest.raises(UsageError, match="taken"):
        plan_machine(ServeOptions(http_port=8080), 2, taken)


def test_held_port_is_refused_to_another_machine_and_free_afterwards():
    with ExitStack() as held:
        port = hold_port(held, "127.0.0.1", 0, False)
        shared = hold_port(held, "127.0.0.1", 0, True)
        assert port != shared
        assert hold_port(held, "127.0.0.1", shared, True) == shared
    assert ports.is_free("127.0.0.1", port)


TWO_ADDRESSES = ("127.0.0.4", "127.0.0.5")  # a client of another test may have any port of 127.0.0.1


def resolve_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name has TWO_ADDRESSES."""
    monkeypatch.setattr(
        "yak.local.ports.socket.getaddrinfo",
        lambda _host, port, **_: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in TWO_ADDRESSES],
    )


def test_held_port_is_held_at_every_address_of_its_host(monkeypatch):
    resolve_to_two(monkeypatch)
    with ExitStack() as held:
        port = hold_port(held, "two.example", 0, False)
        for ip in TWO_ADDRESSES:
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((ip, port))
    for ip in TWO_ADDRESSES:
        with socket.socket() as other:
            other.bind((ip, port))


def test_port_that_is_taken_at_the_second_address_is_refused_and_held_at_none(monkeypatch):
    resolve_to_two(monkeypatch)
    with socket.create_server((TWO_ADDRESSES[1], 0)) as taken, ExitStack() as held:
        port = taken.getsockname()[1]
        with raises_error(UsageError, "address-in-use"):
            hold_port(held, "two.example", port, False)
        with socket.socket() as other:
            other.bind((TWO_ADDRESSES[0], port))


def test_port_that_another_program_listens_on_is_an_error_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as other, ExitStack() as held:
        for is_shared in (False, True):
            with raises_error(UsageError, "address-in-use"):
                hold_port(held, "127.0.0.1", other.getsockname()[1], is_shared)
        with raises_error(UsageError, "bad-address"):
            hold_port(held, "203.0.113.7", 0, False)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "no-such-host.invalid"])
def test_host_whose_name_cannot_be_one_is_refused_as_a_bad_address(host):
    with ExitStack() as held, raises_error(UsageError, "bad-address"):
        hold_port(held, host, 0, False)
