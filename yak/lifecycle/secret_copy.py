"""Keeps this broker's copy of the cluster's secret up to date."""

from __future__ import annotations

from typing import Any

from yak.cluster.secret_file import SecretFile
from yak.core.context import Context
from yak.protocol.peer_proof import ClusterSecret


class SecretCopy:
    """The secret in the file, as far as it was written."""

    def __init__(self, context: Context, file: SecretFile, on_disk: ClusterSecret | None) -> None:
        self._context, self._file, self._on_disk = context, file, on_disk

    def keep(self, secret: ClusterSecret) -> None:
        """Keep a copy of the cluster's secret on this broker's disk, in case the store loses it."""
        if secret == self._on_disk:
            return

        def done(_result: Any, error: BaseException | None) -> None:
            if error is not None:
                self._on_disk = None
                self._context.notice("warning", "cluster-secret-not-kept", error=type(error).__name__)

        self._on_disk = secret
        self._context.jobs.run("image", self._file.write_plan(secret), done)
