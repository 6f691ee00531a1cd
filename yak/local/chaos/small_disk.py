"""A disk that can be filled: a small file system for each broker, else a limit on the size of its files.

The file system is a tmpfs in a mount namespace of this user (`unshare -Urm`), which lives as long as the process that
holds it. Where namespaces are not allowed, the broker's RLIMIT_FSIZE is lowered instead: every write beyond it fails
(EFBIG).
"""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Protocol

from yak.local.processes import ProcessId

_PIECE_BYTES: Final = 1 << 16
_LEAST_BYTES: Final = 4096


class Disk(Protocol):
    """The disk of a broker's data."""

    folder: Path
    """The data folder as the broker sees it."""
    within: tuple[str, ...]
    """A prefix for the broker's command line."""

    @property
    def readable(self) -> Path:
        """The data folder as this process sees it."""

    def fill(self, process: ProcessId) -> None:
        """Use up the free space."""

    def free(self, process: ProcessId | None) -> None:
        """Free the space again."""

    def close(self) -> None:
        """Release all resources."""


class OwnDisk:
    """A tmpfs of so many bytes. Raises OSError where this user may not mount one."""

    def __init__(self, mount_point: Path, size_bytes: int) -> None:
        mount_point.mkdir(parents=True, exist_ok=True)
        self.folder = mount_point / "data"
        mount = f'mount -t tmpfs -o size={size_bytes} tmpfs "$1" && echo mounted && exec sleep 1000000'
        if shutil.which("unshare") is None or shutil.which("nsenter") is None:
            raise OSError("unshare and nsenter are not installed")
        self._holder = subprocess.Popen(  # noqa: S603 - the path is handed over as an argument
            ["unshare", "-Urm", "sh", "-c", mount, "sh", str(mount_point)],  # noqa: S607 - as PATH has it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "mounted\n":
            _, told = self._holder.communicate()
            raise OSError(told.strip() or "this user may not mount a file system")
        self.within: tuple[str, ...] = ("nsenter", "--preserve-credentials", "-t", str(self._holder.pid), "-U", "-m")
        self._root = Path(f"/proc/{self._holder.pid}/root{mount_point}")

    @property
    def readable(self) -> Path:
        """The data folder through the holder's root."""
        return self._root / "data"

    def fill(self, process: ProcessId) -> None:  # noqa: ARG002 - the other kind needs it
        """Write a file that takes all free space."""
        with (self._root / "ballast").open("wb", buffering=0) as file:
            size = _PIECE_BYTES
            while size >= _LEAST_BYTES:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    size //= 2

    def free(self, process: ProcessId | None) -> None:  # noqa: ARG002 - the other kind needs it
        """Delete that file."""
        (self._root / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        """Kill the holder, which ends the file system."""
        self._holder.kill()
        self._holder.wait()


class LimitedDisk:
    """An ordinary folder. While it is full, the broker's files cannot grow, so that its log lines are lost too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.within: tuple[str, ...] = ()

    @property
    def readable(self) -> Path:
        """The folder itself."""
        return self.folder

    def fill(self, process: ProcessId) -> None:
        """Limit the broker's files to one byte."""
        import resource

        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, hard))

    def free(self, process: ProcessId | None) -> None:
        """Restore the limit."""
        import resource

        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    def close(self) -> None:
        """There is nothing to release."""


def can_limit() -> bool:
    """Whether the limits of another process can be changed: Linux has prlimit(2)."""
    return sys.platform.startswith("linux")
