"""Files and folders that only their owner may read: modes 0700 and 0600 whatever the umask, and no link is followed.

Another user of the machine who may write into a folder, such as `/tmp`, can plant a link under a name that is known
before. So new files get a random name and are put in place by a rename, and files with a fixed name are opened with
O_NOFOLLOW.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


def user_folder(variable: str, otherwise: str, environment: Mapping[str, str] = os.environ) -> str:
    """The folder `yak` below the one that a variable names, or else below one of the user's home (XDG Base Directory).

    For a user without a home it does not exist: `~` would be a folder of the working directory, whose files are not ours.
    """
    base = environment.get(variable) or os.path.expanduser(f"~/{otherwise}")
    return os.path.join("/nonexistent" if base.startswith("~") else base, "yak")


def distrust(path: str) -> str:
    """Why a file must not say what to do, empty where it may: it is another user's, or any user may write to it.

    Files of the user and of root are taken; under sudo also those of the user that called it (as git does,
    CVE-2022-24765). The owner of a symbolic link counts as well. Raises OSError.
    """
    trusted = {os.geteuid(), 0}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isascii() and caller.isdigit():
        trusted.add(int(caller))
    found = os.stat(path)
    for owner in (os.lstat(path).st_uid, found.st_uid):
        if owner not in trusted:
            return f"it belongs to another user (uid {owner})"
    return "any user may write to it" if found.st_mode & stat.S_IWOTH else ""


def make_directory(path: str, *, is_ours: Callable[[list[str]], bool] = bool) -> None:
    """Make a folder with its parents, or tighten one that is there. Raises OSError.

    `is_ours` gets the names in a folder that is there and not empty. Where it says no, the folder's mode stays: it is
    used for other things too, and others may need it.
    """
    try:
        os.makedirs(path, DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        _tighten_directory(path, is_ours)


def _tighten_directory(path: str, is_ours: Callable[[list[str]], bool]) -> None:
    found = os.stat(path)
    if found.st_uid != os.geteuid() or not found.st_mode & _OTHERS or found.st_mode & stat.S_ISVTX:
        return
    names = os.listdir(path)
    if not names or is_ours(names):
        os.chmod(path, DIRECTORY_MODE)


def open_file(path: str, flags: int) -> int:
    """Open a file with a fixed name, and tighten it where it is ours. Raises OSError, ELOOP for a link."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    with contextlib.suppress(PermissionError):
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
            os.fchmod(descriptor, FILE_MODE)
    return descriptor


def is_stream(path: str) -> bool:
    """Whether the path is a pipe, a socket or a device."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def replace_file(path: str, data: bytes) -> None:
    """Write a file whole: a reader sees the old one or the new one. Durable but for the name. Raises OSError.

    A pipe or a device is not replaced: for root, /dev/null would become a file with the data.
    """
    if is_stream(path):
        raise OSError(errno.EINVAL, "it is no file but a pipe or a device", path)
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
