"""The address of a Redis: where its password comes from, and the address without it, for display.

    redis://HOST:PORT/DB, rediss://USER@HOST:PORT/DB?ssl_ca_certs=FILE&password_file=FILE, unix:///PATH

A password belongs into the file of `password_file`, or into YAK_REDIS_PASSWORD: other users of the machine see command
lines. The names in the query are redis-py's, except `password_file`.
"""

import os
import re
import stat
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from yak.errors import UsageError

PASSWORD_VARIABLE: Final = "YAK_REDIS_PASSWORD"  # noqa: S105 - a name
_FILE: Final = "password_file"
_OTHERS: Final = 0o077
_IN_TEXT: Final = re.compile(r"(?<=://)([^\s/@:\"']*):[^\s/\"']*@")
"""A user, and the password from the first colon to the last @, as `urlsplit` divides them."""
_IN_QUERY: Final = re.compile(r"(?<=[?&]password=)[^\s&\"']+")


def has_password(url: str) -> bool:
    """Whether the address itself has a password."""
    try:
        parts = urlsplit(url)
        return bool(parts.password) or "password" in dict(parse_qsl(parts.query))
    except ValueError:
        return False


def without_password(text: str) -> str:
    """An address, or any text, with `***` in the place of the passwords of the addresses in it."""
    return _IN_QUERY.sub("***", _IN_TEXT.sub(r"\1:***@", text))


def with_password(url: str, environment: Mapping[str, str] | None = None) -> str:
    """The address to connect to: with the password of its file, else of YAK_REDIS_PASSWORD, unless it has its own.

    Raises UsageError (`redis-password`).
    """
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return url  # the parser of addresses says what is wrong
    path = query.pop(_FILE, None)
    if has_password(url):
        password = None
    elif path is not None:
        password = _read(path)
    else:
        password = (os.environ if environment is None else environment).get(PASSWORD_VARIABLE) or None
    if password is None and path is None:
        return url
    netloc = parts.netloc
    if password is not None:
        user, _, place = netloc.rpartition("@")
        netloc = f"{user}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query)))


def refuse_password(url: str | None) -> None:
    """Refuse an address with a password where it would be stored or be on a command line. Raises UsageError."""
    if url is not None and has_password(url):
        raise UsageError(
            "redis-password",
            f"{without_password(url)} has a password in it",
            why="it would stand in the cluster's state and on the brokers' command lines, which other users see",
            try_=(f"export {PASSWORD_VARIABLE}=...", "--redis-url 'redis://USER@HOST:6379/0?password_file=FILE'"),
        )


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            password = file.read().strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _bad(path, why, f"ls -l {path}") from None
    if mode & _OTHERS:
        raise _bad(path, f"other users of this machine may use it (mode {mode:04o})", f"chmod 600 {path}")
    if not password:
        raise _bad(path, "it is empty", f"edit {path}")
    return password


def _bad(path: str, why: str, try_: str) -> UsageError:
    return UsageError("redis-password", f"the password of Redis cannot be read from {path}", why=why, try_=(try_,))
