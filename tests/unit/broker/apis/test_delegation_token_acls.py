"""Delegation tokens of other owners: an ACL lets a client create and describe them (KIP-373)."""

import datetime as dt

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.acl_rig import AclRig
from yak.acls.bindings import Operation, ResourceType

FOR_BOB = {"owner_principal_type": "User", "owner_principal_name": "bob", "max_lifetime": dt.timedelta(milliseconds=-1)}


@pytest.fixture
def rig():
    return AclRig()


def create_for_bob(rig, user):
    return rig.ask_filled(38, 3, FOR_BOB, rig.user(user))


def described_to(rig, user):
    return [token.token_id for token in rig.ask_filled(41, 3, {"owners": None}, rig.user(user)).tokens]


def test_token_of_another_owner_needs_create_tokens_on_that_user(rig):
    rig.acl(Operation.CREATE_TOKENS, ResourceType.USER, "User:someone", "ann")
    assert create_for_bob(rig, "ann").error_code == ErrorCode.delegation_token_authorization_failed
    rig.acl(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob", "ann")
    created = create_for_bob(rig, "ann")
    assert (created.error_code, created.principal_name) == (ErrorCode.none, "bob")
    assert created.token_requester_principal_name == "ann"
    results = [
        (event["result"], event["resources"]) for event in rig.audit() if event["api"] == "CreateDelegationToken"
    ]
    assert results == [
        ("denied", "delegation token of User:bob"),
        ("done", f"delegation token {created.token_id} of User:bob"),
    ]


@pytest.mark.parametrize("by", ["id", "owner"])
def test_token_of_another_owner_is_described_by_its_id_or_its_owner(rig, by):
    rig.acl(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob", "ann")
    token_id = create_for_bob(rig, "ann").token_id
    assert described_to(rig, "bob") == [token_id]
    assert described_to(rig, "ida") == []
    if by == "id":
        rig.acl(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id, "ida")
    else:
        rig.acl(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob", "ida")
    assert described_to(rig, "ida") == [token_id]


def test_renewals_are_audited_without_the_hmac(rig):
    created = rig.ask_filled(38, 3, FOR_BOB | {"owner_principal_name": "admin"}, rig.client)
    rig.audit()
    renewed = rig.ask_filled(39, 2, {"hmac": created.hmac, "renew_period": dt.timedelta(seconds=5)}, rig.client)
    assert renewed.error_code == ErrorCode.none
    (event,) = rig.audit()
    assert (event["result"], event["resources"]) == ("done", "a delegation token")
