"""Users, ACLs and quotas over the Kafka protocol, by key. All block (run them by `source.kafka`) and raise YakError."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from yak.acls.bindings import AclBinding, encode_entry, encode_pattern
from yak.acls.filters import AclFilter
from yak.client.acls import create_acls, delete_acls, describe_acls
from yak.client.admin import Admin
from yak.client.connection import check_reachable
from yak.client.quotas import alter_quotas, describe_quotas
from yak.client.users import remove_user, user_rows
from yak.quotas.entity import Entity, encode_entity

_TIMEOUT_MS: Final = 10_000
_TIMEOUT_S: Final = _TIMEOUT_MS / 1000


class Quota(NamedTuple):
    """One quota of an entity."""

    entity: Entity
    name: str
    value: float


def list_users(servers: str) -> dict[str, dict[str, int]]:
    """The iterations of each SCRAM mechanism, by user."""
    found: dict[str, dict[str, int]] = {}
    for row in user_rows(Admin(servers, timeout_ms=_TIMEOUT_MS)):
        found.setdefault(row["user"], {})[row["mechanism"]] = row["iterations"]
    return found


def list_acls(servers: str) -> dict[str, AclBinding]:
    """All ACLs."""
    found = describe_acls(check_reachable(servers, _TIMEOUT_MS), AclFilter(), timeout_s=_TIMEOUT_S)
    return {f"{encode_pattern(acl.pattern)} {encode_entry(acl.entry)}": acl for acl in found}


def list_quotas(servers: str) -> dict[str, Quota]:
    """All quotas."""
    found = describe_quotas(check_reachable(servers, _TIMEOUT_MS), None, timeout_s=_TIMEOUT_S)
    return {
        f"{encode_entity(each.entity)} {name}": Quota(each.entity, name, value)
        for each in found
        for name, value in sorted(each.quotas.items())
    }


def add_acl(servers: str, acl: AclBinding) -> None:
    """Add an ACL."""
    create_acls(check_reachable(servers, _TIMEOUT_MS), [acl], timeout_s=_TIMEOUT_S)


def set_quota(servers: str, quota: Quota) -> None:
    """Set one quota of an entity."""
    _alter(servers, quota, quota.value)


def delete_user(servers: str, name: str, mechanisms: Mapping[str, int]) -> None:
    """Delete a user's credentials."""
    remove_user(Admin(servers, timeout_ms=_TIMEOUT_MS), name, tuple(mechanisms))


def delete_acl(servers: str, _key: str, acl: AclBinding) -> None:
    """Delete one ACL."""
    delete_acls(check_reachable(servers, _TIMEOUT_MS), [acl], timeout_s=_TIMEOUT_S)


def delete_quota(servers: str, _key: str, quota: Quota) -> None:
    """Delete one quota of an entity."""
    _alter(servers, quota, None)


def _alter(servers: str, quota: Quota, value: float | None) -> None:
    address = check_reachable(servers, _TIMEOUT_MS)
    alter_quotas(address, quota.entity, {quota.name: value}, validate_only=False, timeout_s=_TIMEOUT_S)
