"""This broker's own copy of the cluster's secret, to restore it to a metadata store that lost everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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

    def read(self) -> ClusterSecret | None:
        """The secret; None when the file is missing or unreadable: the metadata store has the secret too."""
        try:
            return ClusterSecret.parse(self._disk.read_file(self._path).decode("ascii", "replace").strip())
        except OSError:
            return None

    def write_plan(self, secret: ClusterSecret) -> SecretWrite:
        """A plan to write the secret."""
        return SecretWrite(self._path, secret)
