"""This broker's own copy of the cluster's secret, to restore it to a metadata store that lost everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from yak.core.context import Context
from yak.ports.disk import Disk
from yak.protocol.peer_proof import ClusterSecret

_NAME: Final = "cluster-secret"


@dataclass(frozen=True, slots=True)
class SecretWrite:
    """A plan to replace the file, durably."""

    path: str
    secret: ClusterSecret

    def run(self, disk: Disk) -> None:
        """Write it. Raises OSError."""
        disk.write_file(self.path, f"{self.secret.to_text()}\n".encode())


class SecretFile:
    """The file in the folder of the metadata, readable by the broker's user alone (mode 0600)."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{_NAME}"
        self._on_disk: ClusterSecret | None = None

    def read(self) -> ClusterSecret | None:
        """The secret; None when the file is missing or unreadable: the metadata store has the secret too."""
        try:
            self._on_disk = ClusterSecret.parse(self._disk.read_file(self._path).decode("ascii", "replace").strip())
        except OSError:
            self._on_disk = None
        return self._on_disk

    def write_plan(self, secret: ClusterSecret) -> SecretWrite:
        """A plan to write the secret."""
        return SecretWrite(self._path, secret)

    def keep(self, context: Context, secret: ClusterSecret) -> None:
        """Write the secret in a job, unless the file has it."""
        if secret == self._on_disk:
            return

        def done(_result: object, error: BaseException | None) -> None:
            if error is not None:
                self._on_disk = None
                context.notice("warning", "cluster-secret-not-kept", error=type(error).__name__)

        self._on_disk = secret
        context.jobs.run("image", self.write_plan(secret), done)
