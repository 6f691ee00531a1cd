"""Users with SCRAM credentials: listed, added and removed, over librdkafka's admin client (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from yak.client.errors import from_exception, kafka_exceptions

if TYPE_CHECKING:
    from yak.client.admin import Admin


def user_rows(admin: Admin) -> list[dict[str, Any]]:
    """One row for each user and mechanism, with its iterations. Raises YakError."""
    what = "the users could not be read"
    try:
        found = admin.client.describe_user_scram_credentials(request_timeout=admin.timeout_s).result(
            admin.timeout_s + 1
        )
    except kafka_exceptions() as error:
        raise from_exception(error, what) from None
    return [
        {"user": name, "mechanism": info.mechanism.name.replace("_", "-"), "iterations": info.iterations}
        for name, description in sorted(found.items())
        for info in sorted(description.scram_credential_infos, key=lambda each: str(each.mechanism.name))
    ]


def set_password(admin: Admin, user: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
    """Add a user, or change its password. Raises YakError."""
    library = _library()
    changes = [
        library.UserScramCredentialUpsertion(
            user,
            library.ScramCredentialInfo(getattr(library.ScramMechanism, name.replace("-", "_")), iterations),
            password.encode(),
        )
        for name in mechanisms
    ]
    _alter(admin, changes, f"user {user} was not changed")


def remove_user(admin: Admin, user: str, mechanisms: Sequence[str]) -> None:
    """Delete these credentials of a user. Raises YakError."""
    library = _library()
    changes = [
        library.UserScramCredentialDeletion(user, getattr(library.ScramMechanism, each.replace("-", "_")))
        for each in mechanisms
    ]
    _alter(admin, changes, f"user {user} was not removed")


def _library() -> Any:
    import confluent_kafka.admin

    return confluent_kafka.admin


def _alter(admin: Admin, changes: list[Any], what: str) -> None:
    try:
        futures = admin.client.alter_user_scram_credentials(changes, request_timeout=admin.timeout_s)
        for future in futures.values():
            future.result(admin.timeout_s + 1)
    except kafka_exceptions() as error:
        raise from_exception(error, what) from None
