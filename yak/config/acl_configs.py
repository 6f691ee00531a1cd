"""The broker configs of ACLs (Kafka's StandardAuthorizer and ServerConfigs)."""

from __future__ import annotations

from typing import Final

from yak.config.definitions import ConfigType, Value, define

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def principals_of(text: str) -> tuple[str, ...]:
    """The principals in a value of `super.users`. Semicolons separate them, because a certificate's name has commas."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(";") if part.strip()))


def _check_authorizer(_name: str, value: Value) -> None:
    if value not in ("", STANDARD_AUTHORIZER):
        raise ValueError(f"{value!r} is not there; ACLs are {STANDARD_AUTHORIZER}, and an empty value turns them off")


def _check_super_users(_name: str, value: Value) -> None:
    for principal in principals_of(str(value)):
        kind, colon, name = principal.partition(":")
        if not kind or not colon or not name:
            raise ValueError(f"{principal!r} is not a principal such as User:admin; semicolons separate principals")


ACL_CONFIGS: Final = (
    define("authorizer.class.name", ConfigType.STRING, "", _check_authorizer)(
        f"What decides what clients may do. {STANDARD_AUTHORIZER}: ACLs. Empty: every client may do everything."
    ),
    define("super.users", ConfigType.STRING, "", _check_super_users)(
        "Principals that may do everything, separated by semicolons: User:admin;User:CN=ops,O=YAK."
    ),
    define("allow.everyone.if.no.acl.found", ConfigType.BOOLEAN, "false")(
        "Whether a resource without ACLs is open to every client instead of closed."
    ),
)
