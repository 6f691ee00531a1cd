"""Brokers prove themselves to each other: what a client without the cluster's secret gets, and where the secret is."""

import datetime as dt
import json
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Pending
from tests.unit.lost_store import restore_lost_store
from yak.lifecycle.secret_file import SecretFile
from yak.protocol.peer_proof import MECHANISM, ClusterSecret, Exchange, Hello, Incarnation
from yak.sim.node import DATA_DIRECTORY, IMAGE_FOLDER
from yak.sim.routing import Connection

HANDSHAKE, AUTHENTICATE, FETCH = 17, 36, 1
NONCE = bytes(range(32))
SECRET_PATH = f"{DATA_DIRECTORY}/{IMAGE_FOLDER}/cluster-secret"


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig()
    rig.create_topic("orders", min_insync_replicas="2")
    return rig


class Caller(Connection):
    """A client that may say whatever it likes to one broker."""

    def __init__(self, rig: ClusterRig, node_id: int) -> None:
        super().__init__(rig.cluster, node_id)
        self.rig = rig

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        pending = Pending()
        self.send(api_key, version, fields, pending.take)
        self.rig.run_until(lambda: pending.is_done)
        return pending.answer

    def authenticate(self, said: bytes) -> Any:
        return self.ask(AUTHENTICATE, 2, auth_bytes=said)

    def exchange(self, who: Incarnation) -> Exchange:
        """Say hello; what both proofs cover."""
        assert self.ask(HANDSHAKE, 1, mechanism=MECHANISM).error_code == ErrorCode.none
        hello = Hello(who, NONCE).encode()
        answer = self.authenticate(hello)
        assert answer.error_code == ErrorCode.none
        return Exchange(self.rig.cluster.store.state.cluster["cluster_id"], hello, answer.auth_bytes)

    def fetch(self, who: Incarnation, offset: int, **session: int) -> Any:
        """What a follower asks for."""
        partition = self.rig.replica(self.node_id, "orders")
        wanted = {
            "partition": 0,
            "current_leader_epoch": partition.leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": partition.leader_epoch,
            "log_start_offset": 0,
            "partition_max_bytes": 1,
        }
        return self.ask(
            FETCH,
            17,
            max_wait=dt.timedelta(0),
            min_bytes=0,
            max_bytes=1,
            session_id=0,
            session_epoch=0,
            topics=[{"topic_id": partition.topic_id, "partitions": [wanted]}],
            replica_state={"replica_id": who.node_id, "replica_epoch": who.broker_epoch},
        )


def incarnation(rig: ClusterRig, node_id: int) -> Incarnation:
    """All that the metadata show to everyone."""
    info = rig.alive().broker.image.brokers[node_id]
    return Incarnation(node_id, info.broker_epoch, info.boot_id)


def secret_of(rig: ClusterRig) -> ClusterSecret:
    secret = ClusterSecret.parse(rig.cluster.store.state.secret)
    assert secret is not None
    return secret


def test_fetch_as_replica_with_stolen_boot_id_and_epoch_acknowledges_nothing(rig):
    leader, followers = rig.leader("orders"), rig.followers("orders")
    for node_id in followers:
        rig.nodes[node_id - 1].pause()
    pending = rig.begin_produce("orders", [b"a"])
    rig.run_until(lambda: rig.replica(leader, "orders").log_end_offset == 1)
    for node_id in followers:
        stolen = incarnation(rig, node_id)
        attacker = Caller(rig, leader)
        attacker.client_id = f"yak-replica:{stolen.boot_id}"
        assert attacker.fetch(stolen, 1).error_code == ErrorCode.cluster_authorization_failed
    rig.run_for(100)
    assert not pending.is_done
    assert rig.replica(leader, "orders").high_watermark == 0
    for node_id in followers:
        rig.nodes[node_id - 1].resume()
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.responses[0].partition_responses[0].error_code == 0


def test_proof_with_the_secret_of_the_cluster_is_answered_with_the_servers_own(rig):
    leader, follower = rig.leader("orders"), rig.followers("orders")[0]
    who, secret, caller = incarnation(rig, follower), secret_of(rig), Caller(rig, leader)
    exchange = caller.exchange(who)
    answer = caller.authenticate(secret.caller_proof(exchange))
    assert answer.error_code == ErrorCode.none
    assert secret.is_server(answer.auth_bytes, exchange)
    assert Hello.decode(exchange.server).broker == incarnation(rig, leader)
    assert caller.fetch(who, 0).error_code == ErrorCode.none
    assert "replica-session-replaced" in rig.events(leader)


def test_proven_broker_that_fetches_as_another_one_is_refused(rig):
    leader, (one, other) = rig.leader("orders"), rig.followers("orders")
    caller = Caller(rig, leader)
    caller.authenticate(secret_of(rig).caller_proof(caller.exchange(incarnation(rig, one))))
    assert caller.fetch(incarnation(rig, other), 0).error_code == ErrorCode.cluster_authorization_failed
    assert caller.fetch(incarnation(rig, one), 0).error_code == ErrorCode.none


def other_secret(_secret: ClusterSecret, exchange: Exchange) -> bytes:
    return ClusterSecret(bytes(32)).caller_proof(exchange)


def the_servers_side(secret: ClusterSecret, exchange: Exchange) -> bytes:
    return secret.server_proof(exchange)


def of_another_connection(secret: ClusterSecret, exchange: Exchange) -> bytes:
    server = Hello(Hello.decode(exchange.server).broker, bytes(32)).encode()
    return secret.caller_proof(exchange._replace(server=server))


def for_another_broker(secret: ClusterSecret, exchange: Exchange) -> bytes:
    there = Hello.decode(exchange.server)
    server = Hello(there.broker._replace(node_id=there.broker.node_id + 1), there.nonce).encode()
    return secret.caller_proof(exchange._replace(server=server))


def for_another_incarnation(secret: ClusterSecret, exchange: Exchange) -> bytes:
    there = Hello.decode(exchange.server)
    server = Hello(there.broker._replace(broker_epoch=1), there.nonce).encode()
    return secret.caller_proof(exchange._replace(server=server))


def of_another_cluster(secret: ClusterSecret, exchange: Exchange) -> bytes:
    return secret.caller_proof(exchange._replace(cluster_id="another"))


@pytest.mark.parametrize(
    "proof",
    [
        lambda secret, exchange: b"",
        lambda secret, exchange: bytes(32),
        lambda secret, exchange: secret.caller_proof(exchange)[:-1],
        other_secret,
        the_servers_side,
        of_another_connection,
        for_another_broker,
        for_another_incarnation,
        of_another_cluster,
    ],
)
def test_wrong_proof_is_refused_without_a_reason_and_logged(rig, proof):
    leader, follower = rig.leader("orders"), rig.followers("orders")[0]
    who, caller = incarnation(rig, follower), Caller(rig, leader)
    answer = caller.authenticate(proof(secret_of(rig), caller.exchange(who)))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.sasl_authentication_failed, b"")
    assert answer.error_message == "the broker's authentication failed"
    assert caller.fetch(who, 0).error_code == ErrorCode.cluster_authorization_failed
    notice = next(each for each in rig.nodes[leader - 1].notices if each.event == "peer-proof-refused")
    assert notice.is_provoked
    # The whole exchange once more on the same connection, this time rightly.
    answer = caller.authenticate(secret_of(rig).caller_proof(caller.exchange(who)))
    assert answer.error_code == ErrorCode.none


def test_proof_of_an_earlier_incarnation_is_refused(rig):
    leader, follower = rig.leader("orders"), rig.followers("orders")[0]
    earlier = incarnation(rig, follower)
    rig.nodes[follower - 1].kill()
    rig.nodes[follower - 1].start()
    rig.run_until(lambda: incarnation(rig, follower) != earlier and rig.is_in_sync("orders"))
    caller = Caller(rig, leader)
    answer = caller.authenticate(secret_of(rig).caller_proof(caller.exchange(earlier)))
    assert answer.error_code == ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize("node_id", [-1, 2**31 - 1])
def test_broker_that_the_image_does_not_show_is_proven_and_not_a_follower(rig, node_id):
    leader = rig.leader("orders")
    caller, stranger = Caller(rig, leader), Incarnation(node_id, 10_000, "boot")
    answer = caller.authenticate(secret_of(rig).caller_proof(caller.exchange(stranger)))
    assert answer.error_code == ErrorCode.none
    refused = ErrorCode.stale_broker_epoch
    if node_id >= 0:
        assert caller.fetch(stranger, 0).error_code == refused


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", ""])
def test_handshake_of_a_client_is_answered_as_by_a_listener_without_sasl(rig, mechanism, version):
    answer = Caller(rig, 1).ask(HANDSHAKE, version, mechanism=mechanism)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())


@pytest.mark.parametrize("said", [b"", b"\0user\0password", bytes(45), bytes(5_000)])
def test_hello_that_is_none_is_refused(rig, said):
    caller = Caller(rig, 1)
    assert caller.authenticate(said).error_code == ErrorCode.illegal_sasl_state
    assert caller.ask(HANDSHAKE, 0, mechanism=MECHANISM).error_code == ErrorCode.illegal_sasl_state
    assert caller.ask(HANDSHAKE, 1, mechanism=MECHANISM).error_code == ErrorCode.none
    assert caller.ask(HANDSHAKE, 1, mechanism=MECHANISM).error_code == ErrorCode.illegal_sasl_state
    assert caller.authenticate(b"\xff" + said).error_code == ErrorCode.sasl_authentication_failed


# --------------------------------------------------------------------------------------------- the calling side


def reconnect(rig: ClusterRig, node_id: int) -> list[str]:
    """Break all connections of the others to one broker; what they then say of its proof."""
    rig.run_for(1_000)
    others = [node for node in rig.nodes if node.node_id != node_id]
    for node in others:
        for peer_id, peer in list(node.broker.peers._peers.items()):
            if peer.node_id == node_id:
                node.peers._peers[peer_id].line.reset()
    rig.run_for(200)
    said = [notice for node in others for notice in node.notices if notice.event == "peer-proof-failed"]
    return sorted({str(notice.fields["reason"]) for notice in said})


def test_process_at_a_brokers_address_without_the_secret_gets_no_follower(rig, monkeypatch):
    leader = rig.leader("orders")
    assert reconnect(rig, leader) == []
    monkeypatch.setattr(ClusterSecret, "server_proof", lambda _self, _exchange: bytes(32))
    assert reconnect(rig, leader) == [f"the process at the address of broker {leader} is not a broker of this cluster"]
    assert rig.begin_produce("orders", [b"a"]) is not None
    rig.run_for(500)
    assert rig.replica(leader, "orders").high_watermark == 0
    monkeypatch.undo()
    rig.run_until(lambda: rig.replica(leader, "orders").high_watermark == 1)


def test_process_that_says_it_is_another_broker_gets_no_proof(rig, monkeypatch):
    """Else it could pass the proof on to that broker."""
    leader, follower = rig.leader("orders"), rig.followers("orders")[0]
    elsewhere = incarnation(rig, follower)
    monkeypatch.setattr(rig.nodes[leader - 1].broker.peers, "incarnation", lambda: elsewhere)
    assert reconnect(rig, leader) == [f"the process at the address of broker {leader} reports node id {follower}"]


def test_process_of_an_earlier_incarnation_gets_no_proof(rig, monkeypatch):
    leader = rig.leader("orders")
    earlier = incarnation(rig, leader)._replace(broker_epoch=0)
    monkeypatch.setattr(rig.nodes[leader - 1].broker.peers, "incarnation", lambda: earlier)
    assert reconnect(rig, leader) == [f"the process at the address of broker {leader} is an earlier incarnation"]


def test_leader_that_does_not_answer_the_proof_is_connected_to_again(rig, monkeypatch):
    leader, follower = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[leader - 1].pause()
    fetchers = rig.nodes[follower - 1].broker.replica_fetchers._fetchers
    monkeypatch.setattr(fetchers[leader]._channel, "_answer_ms_max", 500)
    fetchers[leader].restart()
    opened = rig.nodes[follower - 1].broker.peers._last_id
    rig.run_for(2_000)
    assert rig.nodes[follower - 1].broker.peers._last_id > opened + 1
    rig.nodes[leader - 1].resume()
    rig.run_until(lambda: fetchers[leader]._channel.is_proven)


# --------------------------------------------------------------------------------------------- where the secret is


def test_secret_is_generated_once_and_stored_by_every_broker(rig):
    text = secret_of(rig).to_text()
    rig.run_for(1_000)
    for node in rig.nodes:
        assert node.disk.read_file(SECRET_PATH) == text.encode() + b"\n"
        assert SecretFile(node.disk, f"{DATA_DIRECTORY}/{IMAGE_FOLDER}").read() == secret_of(rig)


def test_secret_is_in_no_log_line_record_or_image(rig):
    text = secret_of(rig).to_text()
    state = rig.cluster.store.state
    shown = [repr(node.notices) for node in rig.nodes]
    shown += [json.dumps(record.payload) for record in state.log]
    shown += [repr(node.broker.image) + repr(node.broker.peers.secret) for node in rig.nodes]
    for node in rig.nodes:
        folder = f"{DATA_DIRECTORY}/{IMAGE_FOLDER}"
        shown += [
            node.disk.read_file(f"{folder}/{name}").decode("latin-1")
            for name in node.disk.names(folder)
            if name != "cluster-secret"
        ]
    assert len(shown) > 10
    assert [each for each in shown if text in each or bytes.fromhex(text).decode("latin-1") in each] == []


def test_store_that_lost_everything_gets_the_same_secret_back(rig):
    before = secret_of(rig)
    restore_lost_store(rig)
    rig.run_until(lambda: bool(rig.cluster.store.state.secret))
    assert secret_of(rig) == before
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.produce("orders", [b"a"]).error_code == 0


def test_store_of_an_earlier_version_gets_a_secret_from_the_brokers(rig):
    """It has the registrations, and no secret."""
    before = secret_of(rig)
    rig.cluster.store.state.secret = ""
    for node in rig.nodes:
        node.store_line.block()
        node.store_line.unblock()
    rig.run_until(lambda: bool(rig.cluster.store.state.secret))
    assert secret_of(rig) == before


@pytest.mark.parametrize("content", [None, b"", b"not a secret\n", b"\xff" * 64])
def test_broker_without_a_readable_secret_takes_the_stores(rig, content):
    node = rig.nodes[rig.followers("orders")[0] - 1]
    node.kill()
    node.disk.remove(SECRET_PATH) if content is None else node.disk.write_file(SECRET_PATH, content)
    node.start()
    rig.run_until(lambda: node.is_ready and rig.is_in_sync("orders"))
    rig.run_for(100)
    assert node.disk.read_file(SECRET_PATH) == secret_of(rig).to_text().encode() + b"\n"
