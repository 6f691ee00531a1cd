"""An administrator who changes what the metadata have beside topics: configs of groups and brokers, quotas, users, ACLs.

No client of a run has any of them in force. They have to survive restarts, snapshots, restores and moves of the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.sim.clients import Stoppable

if TYPE_CHECKING:
    from yak.sim.deliveries import Deliveries
    from yak.sim.routing import Channel

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Configs of brokers that take ACLs, and let every client of a run do everything."""
CREATE_ACLS, DELETE_ACLS = 30, 31
INCREMENTAL_ALTER_CONFIGS, ALTER_CLIENT_QUOTAS, ALTER_USER_SCRAM_CREDENTIALS = 44, 49, 51
_TOPIC, _BROKER, _GROUP = 2, 4, 32
_LITERAL, _READ, _ALLOW, _SCRAM_SHA_256 = 3, 3, 3, 1
_NAMES = ("a", "b", "c")
_PAUSES_US = (200_000, 1_000_000, 4_000_000)


class EntitiesAdmin(Stoppable):
    """Sets and removes one of them now and then, until it is stopped."""

    def __init__(self, channel: Channel, deliveries: Deliveries, *, has_acls: bool) -> None:
        self._channel, self._rng, self._deliveries = channel, channel.rng, deliveries
        self._pause_us = self._rng.choice(_PAUSES_US)
        self._works = [self._config, self._quota, self._user]
        if has_acls:
            self._works += [self._acl, self._acl]

    def start(self) -> None:
        self._channel.world.after(self._rng.between(1_000, self._pause_us), self._work)

    def _work(self) -> None:
        if not self._is_stopped:
            api_key, version, fields = self._rng.choice(self._works)()
            self._channel.send(api_key, version, fields, self._answered)

    def _answered(self, answer: Any | None) -> None:
        self._deliveries.count("entities changed", answer is not None)
        self.start()

    def _config(self) -> tuple[int, int, dict[str, Any]]:
        kind, name, config = self._rng.choice(
            (
                (_GROUP, self._rng.choice(_NAMES), "consumer.session.timeout.ms"),
                (_BROKER, "", "log.retention.ms"),
                (_BROKER, "1", "log.retention.ms"),
            )
        )
        is_set = self._rng.chance(60)
        change = {
            "name": config,
            "config_operation": 0 if is_set else 1,
            "value": str(self._rng.between(45_000, 50_000) * 1_000) if is_set else None,
        }
        if kind == _GROUP and is_set:
            change["value"] = str(self._rng.between(45_000, 60_000))
        resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
        return INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False}

    def _quota(self) -> tuple[int, int, dict[str, Any]]:
        entity = {"entity_type": "user", "entity_name": self._rng.choice(_NAMES)}
        value = {"key": "producer_byte_rate", "value": float(self._rng.between(1, 9)), "remove": self._rng.chance(40)}
        return ALTER_CLIENT_QUOTAS, 1, {"entries": [{"entity": [entity], "ops": [value]}], "validate_only": False}

    def _user(self) -> tuple[int, int, dict[str, Any]]:
        name = {"name": self._rng.choice(_NAMES), "mechanism": _SCRAM_SHA_256}
        secret = {"iterations": 4096, "salt": b"salt" * 4, "salted_password": bytes([self._rng.below(256)]) * 32}
        changes = ([name], []) if self._rng.chance(40) else ([], [name | secret])
        return ALTER_USER_SCRAM_CREDENTIALS, 0, dict(zip(("deletions", "upsertions"), changes, strict=True))

    def _acl(self) -> tuple[int, int, dict[str, Any]]:
        name, user = self._rng.choice(_NAMES), f"User:{self._rng.choice(_NAMES)}"
        if self._rng.chance(60):
            about = {"resource_type": _TOPIC, "resource_name": name, "resource_pattern_type": _LITERAL}
            creation = about | {"principal": user, "host": "*", "operation": _READ, "permission_type": _ALLOW}
            return CREATE_ACLS, 2, {"creations": [creation]}
        about = {"resource_type_filter": _TOPIC, "resource_name_filter": name, "pattern_type_filter": _LITERAL}
        rest = {"principal_filter": user, "host_filter": None, "operation": _READ, "permission_type": _ALLOW}
        return DELETE_ACLS, 2, {"filters": [about | rest]}
