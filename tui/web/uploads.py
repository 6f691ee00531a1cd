"""Files from the browser to the apps, in a directory of this server that is deleted at its end.

Only this user can read the directory. File names from the browser are reduced to letters, digits and a few signs, and
never overwrite an existing file.
"""

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.multipart import BodyPartReader

from yak.limits import UI_UPLOAD_BYTES_MAX, UI_UPLOADS_BYTES_MAX

_CHUNK_BYTES: Final = 1024 * 1024
_STALLED_SECONDS: Final = 60.0
_NAME_LENGTH_MAX: Final = 100
_NAMESAKES_MAX: Final = 1000


class UploadRefused(Exception):
    """A refused upload, with an HTTP status and a slug. Nothing of it stays on the disk."""

    def __init__(self, status: int, code: str, message: str, try_: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.try_ = try_


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A complete upload."""

    path: Path
    size_bytes: int


@dataclass(slots=True)
class Uploads:
    """The directory of one server's uploads. `close` removes it."""

    file_bytes_max: int = UI_UPLOAD_BYTES_MAX
    all_bytes_max: int = UI_UPLOADS_BYTES_MAX
    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="yak-ui-uploads-")))
    _kept_bytes: int = 0

    def close(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.directory, ignore_errors=True)

    async def receive(self, request: web.Request) -> Uploaded:
        """Store the body of a POST: a form's first file, or the body itself, named by `?name=`.

        Raises UploadRefused: `upload-too-large` (413), `no-room` (507), `no-file` (400), `stalled` (408).
        """
        self._check_size(request.content_length or 0, of_form=request.content_type.startswith("multipart/"))
        if not request.content_type.startswith("multipart/"):
            return await self._keep(request.query.get("name", ""), _body(request))
        try:
            reader = await request.multipart()
            while (part := await reader.next()) is not None:
                if isinstance(part, BodyPartReader) and part.filename is not None:
                    return await self._keep(part.filename, _part(part))
        except ValueError as error:
            raise UploadRefused(
                400, "no-file", f"the form cannot be read ({error})", "send it as a browser does"
            ) from error
        raise UploadRefused(400, "no-file", "the form has no file in it", "curl -F file=@orders.csv …/upload")

    def _check_size(self, size_bytes: int, *, of_form: bool = False) -> None:
        slack = _CHUNK_BYTES if of_form else 0  # a form adds lines around the file
        if size_bytes > self.file_bytes_max + slack:
            raise UploadRefused(
                413,
                "upload-too-large",
                f"a file may have {_mebibytes(self.file_bytes_max)}, this one has more",
                "send it with yak produce -f FILE, or in parts",
            )
        if self._kept_bytes + size_bytes > self.all_bytes_max + slack:
            raise UploadRefused(
                507,
                "no-room",
                f"all uploads together may have {_mebibytes(self.all_bytes_max)}",
                "start yak ui --web again, which forgets them",
            )

    async def _keep(self, name: str, chunks: AsyncIterator[bytes]) -> Uploaded:
        """Write a file under a temporary name and rename it, so that a picker never lists an incomplete file."""
        size_bytes, temporary = 0, ""
        try:
            handle, temporary = tempfile.mkstemp(prefix=".", dir=self.directory)  # mode 0600, as always with mkstemp
            with os.fdopen(handle, "wb") as file:
                async for chunk in chunks:
                    size_bytes += len(chunk)
                    self._kept_bytes += len(chunk)
                    self._check_size(0)
                    if size_bytes > self.file_bytes_max:
                        self._check_size(size_bytes)
                    await asyncio.to_thread(file.write, chunk)
            return Uploaded(self._name(temporary, safe_name(name)), size_bytes)
        except BaseException as error:
            self._kept_bytes -= size_bytes
            _forget(temporary)
            # A disconnect of the browser is an OSError too, but not a disk error.
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                why = error.strerror or str(error)
                raise UploadRefused(507, "no-room", f"the file cannot be kept ({why})", "make room there") from error
            raise

    def _name(self, temporary: str, name: str) -> Path:
        """Rename a complete file to its name, or to `name (2)` if that is taken."""
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, dot + ending) if stem else (name, "")
        for number in range(1, _NAMESAKES_MAX):
            path = self.directory / (name if number == 1 else f"{stem} ({number}){ending}")
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            os.replace(temporary, path)
            return path
        raise UploadRefused(507, "no-room", f"{_NAMESAKES_MAX} files are called {name}", "give it another name")


def _forget(temporary: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(temporary)


async def _body(request: web.Request) -> AsyncIterator[bytes]:
    while chunk := await _in_time(request.content.read(_CHUNK_BYTES)):
        yield chunk


async def _part(part: BodyPartReader) -> AsyncIterator[bytes]:
    while chunk := await _in_time(part.read_chunk(_CHUNK_BYTES)):
        yield chunk


async def _in_time(reading: Coroutine[object, object, bytes]) -> bytes:
    try:
        return await asyncio.wait_for(reading, _STALLED_SECONDS)
    except TimeoutError as error:
        raise UploadRefused(408, "stalled", "the upload stood still", "send it again") from error


def safe_name(name: str) -> str:
    """A file name from a browser, without directories, leading dots, or characters that control a terminal."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    kept = re.sub(r"[^\w .()+,=@-]", "_", last).strip(" .")
    stem, dot, ending = kept.rpartition(".")
    if len(kept) > _NAME_LENGTH_MAX:
        kept = f"{stem[: _NAME_LENGTH_MAX - 12]}{dot}{ending[:11]}" if stem else kept[:_NAME_LENGTH_MAX]
    return kept or "upload"


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024 / 1024:g} MiB"
