"""Users and their SCRAM credentials: set, described, deleted, kept, restored, and shown nowhere."""

from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.requests import restart
from tests.unit.broker.views_of_changes import views_of
from yak.broker.apis.user_scram_credentials import alter_user_scram_credentials
from yak.broker.call import Call
from yak.broker.connections import Connection
from yak.cluster.records import USER
from yak.security.scram import SCRAM_SHA_256, ScramCredential

SALT, SALTED = b"salt", b"the salted password"


def upsertion(name, mechanism=1, iterations=4096, salt=SALT):
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": salt, "salted_password": SALTED}


def altered(rig, *upsertions, deletions=()):
    answer = rig.ask(51, 0, deletions=[{"name": n, "mechanism": m} for n, m in deletions], upsertions=list(upsertions))
    return {row.user: row.error_code for row in answer.results}


def described(rig, *names):
    answer = rig.ask(50, 0, users=[{"name": name} for name in names] or None)
    assert answer.error_code == ErrorCode.none
    return {
        row.user: row.error_code or [(info.mechanism, info.iterations) for info in row.credential_infos]
        for row in answer.results
    }


def test_a_new_cluster_has_no_users(rig):
    assert described(rig) == {}


def test_users_are_described_with_mechanisms_and_iterations(rig):
    assert altered(rig, upsertion("ann"), upsertion("a,b=c")) == {"ann": 0, "a,b=c": 0}
    assert altered(rig, upsertion("ann", 2, 8192)) == {"ann": 0}
    assert described(rig) == {"a,b=c": [(1, 4096)], "ann": [(1, 4096), (2, 8192)]}
    assert described(rig, "ann", "bob") == {"ann": [(1, 4096), (2, 8192)], "bob": ErrorCode.resource_not_found}
    assert described(rig, "ann", "ann") == {"ann": ErrorCode.duplicate_resource}


def test_stored_credential_has_the_keys_of_the_salted_password(rig):
    altered(rig, upsertion("ann"))
    text = rig.node.broker.image.user_credentials["ann"]["SCRAM-SHA-256"]
    assert ScramCredential.parse(text) == SCRAM_SHA_256.credential(SALTED, SALT, 4096)


def test_deletion_of_one_mechanism_keeps_the_other_and_the_last_one_removes_the_user(rig):
    altered(rig, upsertion("ann"))
    altered(rig, upsertion("ann", 2))
    assert altered(rig, deletions=[("ann", 1)]) == {"ann": 0}
    assert described(rig) == {"ann": [(2, 4096)]}
    assert altered(rig, deletions=[("ann", 1)]) == {"ann": ErrorCode.resource_not_found}
    assert altered(rig, deletions=[("ann", 2)]) == {"ann": 0}
    assert described(rig) == {}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsertion(""), ErrorCode.unacceptable_credential),
        (upsertion("", 9), ErrorCode.unacceptable_credential),
        (upsertion("u" * 1000), ErrorCode.unacceptable_credential),
        (upsertion("u", iterations=4095), ErrorCode.unacceptable_credential),
        (upsertion("u", iterations=16_385), ErrorCode.unacceptable_credential),
        (upsertion("u", salt=b""), ErrorCode.unacceptable_credential),
        (upsertion("u", 0), ErrorCode.unsupported_sasl_mechanism),
        (upsertion("u", 3), ErrorCode.unsupported_sasl_mechanism),
    ],
)
def test_bad_upsertion_is_refused_and_others_are_made(rig, change, error):
    assert altered(rig, change, upsertion("ok")) == {change["name"]: error, "ok": 0}
    assert described(rig) == {"ok": [(1, 4096)]}


@pytest.mark.parametrize("mechanism", [1, 2])
def test_second_change_of_a_user_is_refused_whatever_its_mechanism(rig, mechanism):
    """As in Kafka: its ScramControlManager keeps the changes of a request by user."""
    assert altered(rig, upsertion("u"), upsertion("u", mechanism)) == {"u": ErrorCode.duplicate_resource}
    assert altered(rig, upsertion("u"), upsertion("u", mechanism, 1)) == {"u": ErrorCode.duplicate_resource}
    assert altered(rig, upsertion("u"), upsertion("u", mechanism), upsertion("v")) == {
        "u": ErrorCode.duplicate_resource,
        "v": 0,
    }
    assert described(rig) == {"v": [(1, 4096)]}
    assert altered(rig, upsertion("v", mechanism), deletions=[("v", 1)]) == {"v": ErrorCode.duplicate_resource}
    assert described(rig) == {"v": [(1, 4096)]}


def test_first_change_of_a_user_is_checked_before_a_second_one_is_a_duplicate(rig):
    assert altered(rig, upsertion("u", iterations=1), upsertion("u")) == {"u": ErrorCode.unacceptable_credential}
    assert altered(rig, upsertion("u"), deletions=[("u", 1)]) == {"u": ErrorCode.resource_not_found}
    assert altered(rig, deletions=[("", 9), ("x", 9)]) == {
        "": ErrorCode.unacceptable_credential,
        "x": ErrorCode.unsupported_sasl_mechanism,
    }
    assert described(rig) == {}


def test_a_restart_keeps_the_users(rig):
    altered(rig, upsertion("ann"))
    restart(rig)
    assert described(rig) == {"ann": [(1, 4096)]}


def test_no_view_shows_a_key(rig):
    before = rig.node.broker.image
    altered(rig, upsertion("ann"))
    credential = rig.node.broker.image.user_credentials["ann"]["SCRAM-SHA-256"]
    (record,) = [each for each in rig.store.state.log if each.payload.get("resource_type") == USER]
    shown = [*views_of(rig, before, record, "ann"), repr(rig.ask(50, 0, users=None))]
    for part in credential.split(",")[:3]:
        assert not [text for text in shown if part.split("=", 1)[1] in text]


class Deletion:
    """A deletion that counts how often its user is read."""

    mechanism, reads = 1, 0

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        Deletion.reads += 1
        return self._name


def test_each_scram_change_of_a_request_is_read_once_for_all_its_users(rig):
    count = 500
    call = Call(Connection(1, "10.0.0.1:1"), 51, 0, 1, "sim", rig.world.now_ms)
    call.request = SimpleNamespace(deletions=[Deletion(f"u{number}") for number in range(count)], upsertions=[])
    outcome = alter_user_scram_credentials(rig.node.broker, call).operation.on_expiration()  # it starts all the same
    assert len(outcome.fields["results"]) == count
    assert Deletion.reads <= 2 * count
