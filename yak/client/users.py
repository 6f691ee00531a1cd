"""Users with SCRAM credentials: listed by a request of its own, added and removed by librdkafka (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from yak.client.admin import Admin, library
from yak.client.errors import Change, from_answer, from_exception, kafka_exceptions
from yak.client.raw_connection import call_once
from yak.errors import YakError
from yak.security.scram import BY_CODE

_DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50, 0
_RESOURCE_NOT_FOUND: Final = 91
_SHOWS: Final = "yak users list"


def user_rows(admin: Admin) -> list[dict[str, Any]]:
    """One row for each user and mechanism, with its iterations.

    Raises Unreachable, or YakError (`not-authorized`, `user-refused`).

    The request has a connection of its own: when a broker refuses it as a whole, librdkafka 2.16 ends the process.
    """
    what = "the users could not be read"
    answer = call_once(admin.answered, _DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, what, admin.timeout_s)
    if answer.error_code:
        raise from_answer(answer, what, "user-refused")
    return [
        {"user": result.user, "mechanism": BY_CODE[info.mechanism].name, "iterations": int(info.iterations)}
        for result in sorted(answer.results, key=lambda each: str(each.user))
        for info in sorted(result.credential_infos, key=lambda each: int(each.mechanism))
        if info.mechanism in BY_CODE
    ]


def set_password(admin: Admin, user: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
    """Add a user, or change its password. Raises YakError."""
    changes = [
        library().UserScramCredentialUpsertion(
            user,
            library().ScramCredentialInfo(getattr(library().ScramMechanism, name.replace("-", "_")), iterations),
            password.encode(),
        )
        for name in mechanisms
    ]
    _alter(admin, changes, Change(f"user {user} was", "changed", _SHOWS))


def remove_user(admin: Admin, user: str, mechanisms: Sequence[str], *, if_exists: bool = False) -> None:
    """Delete these credentials of a user. Raises YakError; with `if_exists` not for a credential that does not exist."""
    changes = [
        library().UserScramCredentialDeletion(user, getattr(library().ScramMechanism, each.replace("-", "_")))
        for each in mechanisms
    ]
    try:
        _alter(admin, changes, Change(f"user {user} was", "removed", _SHOWS))
    except YakError as error:
        if not if_exists or error.kafka_code != _RESOURCE_NOT_FOUND:
            raise


def _alter(admin: Admin, changes: list[Any], whole: Change) -> None:
    """Make each change by a request of its own: Apache Kafka refuses two of one user in a request."""
    try:
        for change in changes:
            futures = admin.client.alter_user_scram_credentials([change], request_timeout=admin.timeout_s)
            for future in futures.values():
                future.result(admin.timeout_s + 1)
    except kafka_exceptions() as error:
        raise whole.failure(from_exception(error, whole.not_made)) from None
