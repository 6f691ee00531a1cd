"""The users of one broker alone: `yak serve --users-file`, for the first login on a cluster whose listeners all use SASL.

Each line is `name:password`; empty lines and lines that begin with `#` are skipped. The passwords become SCRAM credentials at
start, and are not stored.
"""

import os
import stat
from collections.abc import Mapping
from typing import Final

from yak.errors import UsageError
from yak.security.scram import ITERATIONS_MIN, MECHANISMS, SALT_BYTES, bad_user

_OTHERS: Final = 0o077
USERS_MAX: Final = 100
"""Each user costs some 10 ms of processor time at start."""


def read_users_file(path: str) -> Mapping[str, Mapping[str, str]]:
    """The credentials of a file's users, by name and mechanism. Raises UsageError (`users-file`)."""
    return {name: _credentials(password) for name, password in read_passwords(path).items()}


def read_passwords(path: str) -> Mapping[str, str]:
    """The passwords of a file's users, by name. Raises UsageError (`users-file`)."""
    try:
        with open(path, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if found.st_mode & _OTHERS:
                mode = stat.S_IMODE(found.st_mode)
                raise _bad(path, f"other users of this machine may use it (mode {mode:04o})", f"chmod 600 {path}")
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise _bad(path, (why or str(error)).lower(), f"ls -l {path}") from None
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not password or bad_user(name) or name in users or len(users) == USERS_MAX:
            why = f"line {number} is not NAME:PASSWORD with a new name, or the file has more than {USERS_MAX} users"
            raise _bad(path, why, f"edit line {number} of {path}")
        users[name] = password
    return users


def _credentials(password: str) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for mechanism in MECHANISMS.values():
        salt = os.urandom(SALT_BYTES)
        salted = mechanism.salt_password(password, salt, ITERATIONS_MIN)
        texts[mechanism.name] = mechanism.credential(salted, salt, ITERATIONS_MIN).to_text()
    return texts


def _bad(path: str, why: str, try_: str) -> UsageError:
    return UsageError("users-file", f"the users of {path} cannot be used", why=why, try_=(try_,))
