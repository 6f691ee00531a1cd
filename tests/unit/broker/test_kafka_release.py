"""A broker that answers as an older Kafka: ApiVersions, refused versions, and the clients that get all of YAK."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from yak.broker.apis import DISPATCH, TABLE
from yak.broker.apis.quorum import BETWEEN_BROKERS, OF_A_QUORUM
from yak.broker.call import Call
from yak.broker.connections import Connection
from yak.broker.kafka_release import KafkaRelease
from yak.config.kafka_releases import RELEASES, max_versions
from yak.core import events
from yak.protocol.peer_proof import Incarnation
from yak.sim.request_fields import frame_of
from yak.sim.wire import read_answer

SOFTWARE = {"client_software_name": "x", "client_software_version": "1"}
METADATA = {"topics": [], "allow_auto_topic_creation": False}


def served(release: str) -> dict[int, int]:
    """The highest versions that a broker of this release has to list."""
    limits, found = max_versions(release), {}
    for key, api in TABLE.items():
        highest = min(api.VERSIONS.stop - 1, limits.get(key, -1))
        if key not in BETWEEN_BROKERS | OF_A_QUORUM and highest >= api.VERSIONS.start:
            found[key] = highest
    return found


def listed(answer):
    return {int(each.api_key): int(each.max_version) for each in answer.api_keys}


class RawClient:
    """A connection whose requests go straight into the core."""

    def __init__(self, release: str, *, client_id: str = "sim", kind: str = "client") -> None:
        self.rig = Rig(settings={"yak.as.kafka": release})
        self.client_id = client_id
        self.step(events.ConnectionOpened(1_000, "10.0.0.1:1", is_in_process=kind == "in process"))
        if kind == "broker":
            self.rig.node.broker.connections[1_000].proven = Incarnation(2, 1, "boot")

    def step(self, event):
        return self.rig.node.broker.step(event, self.rig.world.now_ms)

    def send(self, api_key, version, answer_version=None, **fields):
        """The answer, or None when the connection is closed."""
        frame = memoryview(frame_of(api_key, version, 7, fields, self.client_id))
        effects = self.step(events.FrameReceived(1_000, frame))
        if any(isinstance(each, events.CloseConnection) for each in effects):
            return None
        (reply,) = (each for each in effects if isinstance(each, events.Reply))
        answer_version = version if answer_version is None else answer_version
        return read_answer(api_key, answer_version, b"".join(map(bytes, reply.parts)))[1]


@pytest.mark.parametrize("release", ["2.0", "2.8", "3.5", "4.0", RELEASES[-1]])
def test_api_versions_lists_the_table_of_the_release(release):
    answer = Rig(settings={"yak.as.kafka": release}).ask(18, 0)
    assert listed(answer) == served(release)
    assert all(each.min_version <= each.max_version for each in answer.api_keys)


def test_features_are_listed_from_kafka_4_on():
    for release, features in (("3.9", 0), ("4.0", 3)):
        answer = Rig(settings={"yak.as.kafka": release}).ask(18, 3, **SOFTWARE)
        assert (len(answer.supported_features), len(answer.finalized_features)) == (features, features)


@pytest.mark.parametrize(("release", "version", "highest"), [("2.0", 3, None), ("2.8", 4, 3), ("2.4", 4, 3)])
def test_api_versions_above_the_release_is_answered_as_v0(release, version, highest):
    answer = RawClient(release).send(18, version, 0, **SOFTWARE)
    assert answer.error_code == ErrorCode.unsupported_version
    assert listed(answer).get(18) == highest
    assert bool(answer.api_keys) == (release != "2.0")


def test_a_request_above_the_release_closes_the_connection():
    assert RawClient("2.8").send(3, 11, **METADATA) is not None
    assert RawClient("2.8").send(3, 12, **METADATA) is None
    assert RawClient("2.7").send(60, 0) is None


@pytest.mark.parametrize("who", [{"kind": "broker"}, {"kind": "in process"}, {"client_id": "yak"}])
def test_brokers_http_and_yaks_own_commands_get_all_versions(who):
    client = RawClient("2.0", **who)
    assert client.send(3, 12, **METADATA) is not None
    assert listed(client.send(18, 4, **SOFTWARE))[3] == TABLE[3].VERSIONS.stop - 1


@settings(deadline=None)
@given(st.sampled_from(RELEASES), st.sampled_from(sorted(DISPATCH)))
def test_a_version_is_refused_exactly_when_the_release_does_not_have_it(release, request_of):
    api_key, version = request_of
    call = Call(Connection(1, "10.0.0.1:1"), api_key, version, 1, "sim", 0)
    known = max_versions(release)
    assert KafkaRelease(release).refuses(call) == (api_key not in known or version > known[api_key])
