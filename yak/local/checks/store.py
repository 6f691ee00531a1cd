"""The metadata store: whether Redis answers, is durable, and has the right time."""

import time
from shlex import quote
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from yak.errors import Unreachable, UsageError, YakError
from yak.local.checks.finding import Finding
from yak.security.redis_url import with_password, without_password

SKEW_WARN_MS: Final = 500.0
SKEW_FAIL_MS: Final = 5_000.0


def check_store(url: str, *, is_configured: bool, timeout_s: float, start_with: str = "") -> list[Finding]:
    """Whether Redis is reachable, durable, and has the right time; skipped when none is configured or found.

    `start_with` is the command that starts it, if YAK does.
    """
    import redis

    address = without_password(url)
    try:
        client = redis.Redis.from_url(with_password(url), socket_connect_timeout=timeout_s, socket_timeout=timeout_s)
    except UsageError as error:
        return [Finding("redis", "FAIL", f"{error.message}: {error.why}", error.try_[0])]
    except ValueError as error:
        return [Finding("redis", "FAIL", f"{address}: {error}", "--redis-url redis://HOST:PORT/0")]
    with client:
        try:
            began = time.monotonic()
            client.ping()
            took_ms = (time.monotonic() - began) * 1000.0
            info: dict[str, Any] = client.info()
        except redis.RedisError as error:
            if not is_configured:
                return [Finding("redis", "skip", "no Redis is configured; yak up starts its own")]
            return [Finding("redis", "FAIL", f"{address}: {error}", start_with or f"{_redis_cli(address)} ping")]
        version = info.get("redis_version", "?")
        return [
            Finding("redis", "ok", f"{address} answers ({took_ms:.1f} ms, version {version})"),
            _check_safety(client, info, address),
            _check_clock(client),
        ]


def _check_safety(client: Any, info: dict[str, Any], address: str) -> Finding:
    import redis

    from yak.server.redis_store import SAFE_SETTINGS

    if info.get("role") != "master":
        return Finding("redis safety", "FAIL", f"it is a {info.get('role')}, not a master", "use the master's address")
    if info.get("aof_last_write_status", "ok") != "ok":
        return Finding("redis safety", "FAIL", "its last write to the append-only file failed", "look at its log")
    if replicas := info.get("connected_slaves"):
        detail = f"it has {replicas} replicas: a failover loses acknowledged metadata"
        return Finding("redis safety", "FAIL", detail, "use a Redis without replicas")
    wrong: list[str] = []
    for name, (wanted, _danger) in SAFE_SETTINGS.items():
        try:
            value = client.config_get(name).get(name)
        except redis.RedisError:
            return Finding("redis safety", "warn", "it does not let us read its settings", f"check them on {address}")
        if value is not None and value != wanted:
            wrong.append(f"{name} {value}")
    if wrong:
        first = wrong[0].split(" ")[0]
        hint = f"{_redis_cli(address)} config set {first} {SAFE_SETTINGS[first][0]}"
        return Finding("redis safety", "FAIL", f"metadata can be lost: {', '.join(wrong)}", hint)
    return Finding("redis safety", "ok", "append-only file, fsync before each reply, no eviction, master")


def _redis_cli(address: str) -> str:
    parts = urlsplit(address)
    return f"redis-cli -s {quote(unquote(parts.path))}" if parts.scheme == "unix" else f"redis-cli -u {address}"


def _check_clock(client: Any) -> Finding:
    import redis

    before = time.time()
    try:
        seconds, microseconds = client.time()
    except redis.RedisError as error:
        return Finding("clock", "warn", f"it does not tell its time: {error}")
    after = time.time()
    skew_ms = (seconds + microseconds / 1e6 - (before + after) / 2) * 1000.0
    detail = f"this machine and Redis differ by {abs(skew_ms):.1f} ms"
    if abs(skew_ms) > SKEW_FAIL_MS:
        return Finding("clock", "FAIL", detail, "timedatectl set-ntp true")
    if abs(skew_ms) > SKEW_WARN_MS:
        return Finding("clock", "warn", detail, "timedatectl set-ntp true")
    return Finding("clock", "ok", detail)


def check_quorum(servers: str, *, timeout_s: float) -> Finding | None:
    """The finding of the first broker that answers; None when the cluster has no quorum, or no broker answers."""
    from yak.client.quorum import describe_quorum

    for address in servers.split(","):
        try:
            state = describe_quorum(address.strip(), timeout_s=timeout_s)
        except Unreachable as error:
            if error.code == "quorum-no-leader":
                return Finding("quorum", "FAIL", f"{error.message}: changes are refused", "yak up, or start its voters")
            continue
        except YakError:
            return None
        voters = ", ".join(map(str, state.voter_ids))
        said = f"node {state.leader_id} leads in epoch {state.epoch}, voters {voters}"
        away = sorted(set(state.voter_ids) - state.running_voters())
        if away:
            nodes = ", ".join(map(str, away))
            return Finding("quorum", "warn", f"{said}; not running: {nodes}", "yak quorum describe --replication")
        return Finding("quorum", "ok", said)
    return None
