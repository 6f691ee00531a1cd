"""What logins cost, and what connections that never log in cost a client that did. Run by hand, without Redis:

    python benchmarks/bench_logins.py [--clients N] [--seconds S] [--part scram|floods]

scram   N clients are logged in and idle. N more log in, 100 a second, then N more all at once: time from connect to the
        last answer, in ms. The client's own PBKDF2 is computed once, before.
floods  A client that is logged in produces a record each 5 ms with acks=all: the p50 and p99 of its acknowledgements while
        the machine is quiet, and while another process opens connections as fast as it can that
        silent         send nothing
        garbage        send bytes that are no request
        wrong password log in with one
        half           begin a handshake of TLS and stop (the client then uses TLS too)
        The flood has a lower priority (nice 10), since on a small machine it would take the processor from the client.
"""

import argparse
import contextlib
import functools
import hashlib
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from versus.brokers import free_port
from versus.yak_broker import serving

from yak.client.login import ClientLogin, use_login
from yak.client.raw_connection import RawConnection
from yak.errors import Unreachable
from yak.security.certificates import create_certificates

PATIENCE_S = 30.0
LOGINS_PER_S = 100
THREADS = 32
USER, PASSWORD, MECHANISM = "alice", "alice-of-the-benchmark", "SCRAM-SHA-256"
CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(64)
"""The first 75 bytes of a TLS record of 517."""
hashlib.pbkdf2_hmac = functools.cache(hashlib.pbkdf2_hmac)  # the client's work is not measured


@contextlib.contextmanager
def broker_with_logins(folder: Path) -> Iterator[dict[str, str]]:
    """One broker; its addresses by listener."""
    users, certs = folder / "users", folder / "certs"
    users.write_text(f"{USER}:{PASSWORD}\n")
    users.chmod(0o600)
    create_certificates(str(certs), ["127.0.0.1"], 90, [], force=False, now=datetime.now(UTC))
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("PLAIN", "TLS")}
    configs = (
        f"listeners=PLAIN://{addresses['PLAIN']},TLS://{addresses['TLS']}",
        "listener.security.protocol.map=PLAIN:SASL_PLAINTEXT,TLS:SASL_SSL",
        f"listener.name.tls.ssl.keystore.location={certs}/broker.pem",
        "max.connections=20000",
    )
    options = [word for config in configs for word in ("-c", config)]
    with serving(folder / "broker", "--users-file", str(users), *options):
        yield addresses


def show(what: str, took_s: list[float], beside: str = "") -> float:
    took = sorted(1000 * each for each in took_s)
    p99 = took[int(len(took) * 0.99)]
    print(f"{what:32} p50 {statistics.median(took):7.2f} ms   p99 {p99:7.2f} ms   of {len(took)}{beside}", flush=True)
    return p99


# ---------------------------------------------------------------------------------------------------- logins


def measure_logins(address: str, clients: int) -> None:
    """Log in beside idle clients: one after the other, and all at once."""
    use_login(ClientLogin(MECHANISM, USER, PASSWORD))
    took: list[float] = []

    def one(due: float) -> RawConnection:
        time.sleep(max(0.0, due - time.monotonic()))
        started = time.perf_counter()
        made = RawConnection(address, timeout_s=PATIENCE_S, only_login=True)
        took.append(time.perf_counter() - started)
        return made

    with ThreadPoolExecutor(THREADS) as pool:
        begin = time.monotonic()
        idle = list(pool.map(one, [begin] * clients))
        took.clear()
        begin = time.monotonic()
        for made in list(pool.map(one, [begin + index / LOGINS_PER_S for index in range(clients)])):
            made.close()
        show(f"logins, {LOGINS_PER_S} a second", took, f", beside {clients} idle clients")
        took.clear()
        begin = time.monotonic()
        for made in list(pool.map(one, [begin] * clients)):
            made.close()
        show(f"logins, {THREADS} at a time", took, f", {clients / (time.monotonic() - begin):.0f} a second")
    for made in idle:
        made.close()


# ---------------------------------------------------------------------------------------------------- floods


def latencies(address: str, seconds: float, settings: dict[str, Any]) -> list[float]:
    """The acknowledgements of one client that sends a record each 5 ms."""
    login = {"sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": PASSWORD}
    producer = Producer(
        {"bootstrap.servers": address, "acks": "all", "linger.ms": 0, "log_level": 0, **login, **settings}
    )
    took: list[float] = []
    end = time.monotonic() + seconds + 1
    while (now := time.monotonic()) < end:
        sent = time.perf_counter()
        answered: list[float] = []
        producer.produce("flooded", b"x" * 100, on_delivery=lambda *_, into=answered: into.append(time.perf_counter()))
        while not answered:
            producer.poll(0.001)
        if end - now < seconds:  # the first second warms up
            took.append(answered[0] - sent)
        time.sleep(0.005)
    return took


def flood(kind: str, address: str, opened: Any) -> None:
    """Open connections until the process is killed; at most 500 stay open."""
    os.nice(10)
    host, port = address.rsplit(":", 1)
    open_sockets: list[socket.socket] = []
    if kind == "wrong password":
        use_login(ClientLogin("SCRAM-SHA-256", USER, "wrong"))
        for _ in range(THREADS):
            threading.Thread(target=wrong_passwords, args=(address, opened), daemon=True).start()
        threading.Event().wait()
    while True:
        with contextlib.suppress(OSError):
            made = socket.create_connection((host, int(port)), PATIENCE_S)
            if kind != "silent":
                made.sendall(CLIENT_HELLO if kind == "half" else os.urandom(64))
            open_sockets.append(made)
            opened.value += 1
        if len(open_sockets) > 500:
            open_sockets.pop(0).close()


def wrong_passwords(address: str, opened: Any) -> None:
    while True:
        with contextlib.suppress(OSError, Unreachable):
            opened.value += 1
            RawConnection(address, timeout_s=PATIENCE_S, only_login=True).close()


def measure_floods(addresses: dict[str, str], seconds: float, certs: Path) -> None:
    """The client's latency with each flood, beside its latency without."""
    plain = (addresses["PLAIN"], {"security.protocol": "SASL_PLAINTEXT"})
    tls = (addresses["TLS"], {"security.protocol": "SASL_SSL", "ssl.ca.location": f"{certs}/ca.pem"})
    for kind in ("silent", "garbage", "wrong password", "half"):
        address, settings = tls if kind == "half" else plain
        quiet = show(f"quiet, before {kind}", latencies(address, seconds, settings))
        opened = multiprocessing.Value("q", 0)
        process = multiprocessing.Process(target=flood, args=(kind, address, opened), daemon=True)
        process.start()
        time.sleep(0.5)
        before, begin = opened.value, time.monotonic()
        took = latencies(address, seconds, settings)
        rate = (opened.value - before) / (time.monotonic() - begin)
        process.kill()
        process.join()
        flooded = show(f"flood of {kind}", took, f", {rate:.0f} connections a second")
        print(f"{'':32} p99 x {flooded / quiet:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--part", choices=("scram", "floods"))
    options = parser.parse_args()
    parts: dict[str, Callable[[dict[str, str], Path], None]] = {
        "scram": lambda addresses, _: measure_logins(addresses["PLAIN"], options.clients),
        "floods": lambda addresses, folder: measure_floods(addresses, options.seconds, folder / "certs"),
    }
    for name, measure in parts.items():
        if options.part in (None, name):
            with tempfile.TemporaryDirectory() as folder, broker_with_logins(Path(folder)) as addresses:
                measure(addresses, Path(folder))


if __name__ == "__main__":
    main()
