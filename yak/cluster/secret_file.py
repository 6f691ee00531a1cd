"""This broker's own copy of the cluster's secret, to restore it to a metadata store that lost everything."""

from __future__ import annotations

from typing import Final

from yak.ports.disk import Disk
from yak.protocol.peer_proof import ClusterSecret

_NAME: Final = "cluster-secret"


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

    def write(self, secret: ClusterSecret) -> None:
        """Replace the file, durably; waits for the device. Raises OSError."""
        self._disk.write_file(self._path, f"{secret.to_text()}\n".encode())
