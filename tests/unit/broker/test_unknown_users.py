"""Logins of users that do not exist cannot be told from wrong passwords, whatever iterations the users have."""

from dataclasses import replace

import pytest

from tests.unit.broker.login_client import NAMES, PASSWORD, SALT, Client, make_rig
from yak.security.scram import MECHANISMS, ScramClient

ITERATIONS = 8192
"""What Kafka's documentation uses, twice the least."""


def with_users(iterations, *mechanisms):
    rig = make_rig()
    for mechanism in MECHANISMS.values():
        named = [{"name": name, "mechanism": mechanism.code} for name in NAMES]
        salted = mechanism.salt_password(PASSWORD, SALT, iterations)
        credential = {"iterations": iterations, "salt": SALT, "salted_password": salted}
        kept = mechanism.name in mechanisms
        rig.ask(51, 0, deletions=[] if kept else named, upsertions=[each | credential for each in named if kept])
    return rig


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scram_answers_an_unknown_user_with_the_iterations_of_the_others(mechanism):
    rig = with_users(ITERATIONS, *MECHANISMS)
    for user in ("ann", "unknown"):
        client = Client(rig)
        client.handshake(mechanism)
        answer = client.token(ScramClient(MECHANISMS[mechanism], user, PASSWORD, b"nonce").first())
        assert answer.auth_bytes.endswith(b",i=8192")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_plain_password_of_an_unknown_user_takes_as_long_as_that_of_the_others(mechanism):
    logins = with_users(ITERATIONS, mechanism).node.broker.logins
    found, credential = logins.password_credential("unknown")
    assert (found.name, credential.iterations) == (mechanism, ITERATIONS)
    assert not credential.is_password(found, PASSWORD)


def test_without_any_user_the_least_iterations_are_used():
    logins = with_users(ITERATIONS).node.broker.logins
    assert logins.password_credential("unknown")[1].iterations == 4096


def test_logins_of_unknown_users_search_the_users_once_after_a_change():
    class Counted(dict):
        searched = 0

        def __iter__(self):
            Counted.searched += 1
            return super().__iter__()

        def items(self):
            Counted.searched += 1
            return super().items()

    rig = with_users(ITERATIONS, *MECHANISMS)
    logins, context = rig.node.broker.logins, rig.node.broker.context
    for change in (1, 2):
        context.image = replace(context.image, user_credentials=Counted(context.image.user_credentials))
        for user in ("unknown", "another", "unknown"):
            assert logins.password_credential(user)[1].iterations == ITERATIONS
        assert Counted.searched == change
