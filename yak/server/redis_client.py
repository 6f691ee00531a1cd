"""One connection to Redis for Trio: hiredis parses, commands are pipelined, and a silent server times out.

`submit` queues commands from the event loop without waiting; replies come in order. When the connection is lost,
commands in flight may or may not have been executed. Their callbacks are not called, and `run` raises `ConnectionLost`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis
import trio

from yak.errors import UsageError, first_in
from yak.security.redis_url import with_password, without_password

Part: TypeAlias = str | bytes | int
OnReply: TypeAlias = Callable[[Any], None]
"""Called with the reply; a `ReplyError` object when the server answered with an error."""

_RECEIVE_BYTES = 1 << 18


class ReplyError(Exception):
    """An error reply, such as NOSCRIPT or OOM."""


class ConnectionLost(Exception):
    """The server closed the connection, is unreachable, or does not answer."""


@dataclass(slots=True, frozen=True)
class RedisAddress:
    """The address and the credentials of a Redis server."""

    host: str = ""
    port: int = 6379
    path: str = ""
    tls: bool = False
    username: str = ""
    password: str = field(default="", repr=False)
    database: int = 0
    ca_file: str = ""
    """The CA certificates for TLS, in PEM; empty for the system's."""
    certificate_file: str = ""
    """The client's certificate in PEM; empty: none."""
    key_file: str = ""
    """Its private key; empty: in the same file."""

    @classmethod
    def parse(cls, url: str) -> RedisAddress:
        """Parse `redis://[user:password@]host[:port][/db]`, `unix://[user:password@]/path[?db=0]` or `rediss://…`.

        `rediss://` is TLS and may have `?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE`. The query has redis-py's
        names, and `password_file` (`yak.security.redis_url`). Raises UsageError.
        """
        address = without_password(url)
        try:
            parts = urlsplit(with_password(url))
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            username = unquote(parts.username or "") or query.get("username", "")
            password = unquote(parts.password or "") or query.get("password", "")
            if parts.scheme == "unix" and parts.path:
                database = int(query.get("db", "0"))
                return cls(path=unquote(parts.path), username=username, password=password, database=database)
            if parts.scheme in ("redis", "rediss") and parts.hostname:
                database = int(parts.path.strip("/") or query.get("db", "0"))
                tls = parts.scheme == "rediss"
                files = [query.get(name, "") for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")]
                return cls(parts.hostname, parts.port or 6379, "", tls, username, password, database, *files)
        except ValueError:
            pass
        raise UsageError(
            "bad-redis-url",
            f"{address} is not a Redis address",
            why="it must be redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH",
            try_=("--redis-url redis://127.0.0.1:6379/0",),
        )

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"

    async def open(self, timeout_seconds: float) -> trio.abc.Stream:
        """Connect. Raises ConnectionLost."""
        try:
            with trio.fail_after(timeout_seconds):
                if self.path:
                    return await trio.open_unix_socket(self.path)
                if self.tls:
                    import ssl

                    context = ssl.create_default_context(cafile=self.ca_file or None)
                    if self.certificate_file:
                        context.load_cert_chain(self.certificate_file, self.key_file or None)
                    stream = await trio.open_ssl_over_tcp_stream(self.host, self.port, ssl_context=context)
                    await stream.do_handshake()
                    return stream
                return await trio.open_tcp_stream(self.host, self.port)
        except trio.TooSlowError as error:
            raise ConnectionLost(f"{self} did not accept the connection in {timeout_seconds:g} s") from error
        except (OSError, UnicodeError, trio.BrokenResourceError) as error:
            # Trio reports only that the stream broke, or that all attempts failed; the reason is its cause.
            raise ConnectionLost(f"{self}: {message_of(error.__cause__ or error)}") from error

    def login(self) -> list[tuple[Part, ...]]:
        """The first commands of a connection."""
        commands: list[tuple[Part, ...]] = []
        if self.password:
            commands.append(("AUTH", self.username, self.password) if self.username else ("AUTH", self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands


class RedisClient:
    """The connection. `run` reads and writes; it ends only by `ConnectionLost` or cancellation."""

    def __init__(self, stream: trio.abc.Stream, name: str, timeout_seconds: float) -> None:
        self._stream = stream
        self._name = name
        self._timeout = timeout_seconds
        self._unsent: list[bytes] = []
        self._waiting: deque[tuple[float, OnReply]] = deque()
        self._work = trio.Event()

    def submit(self, parts: tuple[Part, ...], on_reply: OnReply, *, extra_seconds: float = 0.0) -> None:
        """Queue a command; `extra_seconds` extends its timeout (for a blocking read)."""
        self._unsent.append(hiredis.pack_command(parts))  # type: ignore[arg-type]
        self._waiting.append((trio.current_time() + self._timeout + extra_seconds, on_reply))
        self._work.set()

    async def call(self, *parts: Part, extra_seconds: float = 0.0) -> Any:
        """Run one command. Raises ReplyError. Waits forever after `run` has ended, so cancel it then."""
        return (await self.pipeline([parts], extra_seconds=extra_seconds))[0]

    async def pipeline(self, commands: list[tuple[Part, ...]], *, extra_seconds: float = 0.0) -> list[Any]:
        """Run several commands in one pipeline. Raises the first ReplyError."""
        replies: list[Any] = []
        done = trio.Event()

        def on_reply(reply: Any) -> None:
            replies.append(reply)
            if len(replies) == len(commands):
                done.set()

        for parts in commands:
            self.submit(parts, on_reply, extra_seconds=extra_seconds)
        await done.wait()
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise reply
        return replies

    async def run(self) -> None:
        """Read, write and check timeouts. Raises ConnectionLost."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                nursery.start_soon(self._read)
        except* (ConnectionLost, trio.BrokenResourceError, trio.ClosedResourceError, OSError) as group:
            raise ConnectionLost(f"{self._name}: {message_of(group)}") from group
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _write(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._unsent:
                chunk = b"".join(self._unsent)
                self._unsent.clear()
                with trio.move_on_after(self._timeout) as scope:
                    await self._stream.send_all(chunk)
                if scope.cancelled_caught:
                    raise ConnectionLost(f"did not take a command in {self._timeout:g} s")
            await self._watch()

    async def _watch(self) -> None:
        """Wait for more commands, or raise ConnectionLost when the oldest command times out."""
        while self._waiting and not self._work.is_set():
            deadline = self._waiting[0][0]
            with trio.move_on_at(deadline):
                await self._work.wait()
            if self._waiting and self._waiting[0][0] <= trio.current_time():
                raise ConnectionLost(f"did not answer in {self._timeout:g} s")

    async def _read(self) -> None:
        reader = hiredis.Reader(replyError=ReplyError, protocolError=ConnectionLost, encoding="utf-8", errors="replace")
        while True:
            data = await self._stream.receive_some(_RECEIVE_BYTES)
            if not data:
                raise ConnectionLost("the server closed the connection")
            reader.feed(bytes(data))
            while (reply := reader.gets()) is not False:
                if not self._waiting:
                    raise ConnectionLost("a response without a request")
                _deadline, on_reply = self._waiting.popleft()
                on_reply(reply)


def message_of(error: BaseException) -> str:
    """The message of an error, or of the first one in a group: the system's, else its own, or its type's name."""
    error = first_in(error)
    if isinstance(error, OSError) and error.errno and type(error).__module__ == "builtins":
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
