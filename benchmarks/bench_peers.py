"""What a connection to another broker costs: answers of a megabyte without pause, and a round trip of small ones.

    python benchmarks/bench_peers.py [--seconds S] [--rounds N] [--profile]

A process plays the leader: it answers each request with so many bytes as the run says. Our side is the shell with a core
that asks again for each answer, as a follower does. Prints the rate, and the processor time of our side: for a gigabyte,
or for a round trip. The last run reads with a plain blocking socket, in the same way: what is left is what Trio costs.
"""

import argparse
import contextlib
import multiprocessing
import socket
import struct
import time

import trio

from yak.core.events import ConnectPeer, Effect, Event, PeerAnswered, PeerConnected, SendPeer
from yak.server.disk import RealDisk
from yak.server.shell import Shell

REQUEST = struct.pack(">i", 96) + bytes(96)


def leader(listening: socket.socket, answer_bytes: int) -> None:
    """Answers each request of one connection, until it is closed."""
    sock, _ = listening.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer = struct.pack(">i", answer_bytes) + bytes(answer_bytes)
    waiting = 0
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(65536):
            waiting += len(data)
            while waiting >= len(REQUEST):
                waiting -= len(REQUEST)
                sock.sendall(answer)


class AskingCore:
    """Sends a request for each answer; `ahead` of them are under way at any time."""

    def __init__(self, port: int, ahead: int) -> None:
        self.answers = self.answered_bytes = 0
        self._port = port
        self._ahead = ahead

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if type(event) is PeerAnswered:
            self.answers += 1
            self.answered_bytes += len(event.frame)
            return [SendPeer(1, [REQUEST])]
        if type(event) is PeerConnected:
            return [SendPeer(1, [REQUEST]) for _ in range(self._ahead)]
        return []

    def next_due(self) -> int | None:
        return None

    held_bytes = 0

    def backlog(self, connection_id: int) -> int:
        return 0


async def follow(port: int, ahead: int, seconds: float) -> tuple[int, int, float, float, float, float]:
    async with trio.open_nursery() as nursery:
        core = AskingCore(port, ahead)
        shell = Shell(core, nursery, disk=RealDisk(max_open_files=1))
        shell.carry_out([ConnectPeer(1, "127.0.0.1", port)])
        while core.answers < 20:  # noqa: ASYNC110 - an event would be on the way that is measured
            await trio.sleep(0.01)
        counters = shell.counters
        answers, data, turns, sends = core.answers, core.answered_bytes, counters.turns, counters.sends
        cpu, wall = time.process_time(), time.perf_counter()
        await trio.sleep(seconds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        answers, data = core.answers - answers, core.answered_bytes - data
        turns, sends = counters.turns - turns, counters.sends - sends
        nursery.cancel_scope.cancel()
    return answers, data, cpu, wall, turns / answers, sends / answers


def follow_plainly(port: int, ahead: int, seconds: float) -> tuple[int, int, float, float, float, float]:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(1 << 21)
    view = memoryview(buffer)
    sock.sendall(REQUEST * ahead)
    answers = data = start = end = 0
    cpu, wall = time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < seconds:
        end += sock.recv_into(view[end:])
        while end - start >= 4:
            need = 4 + int.from_bytes(buffer[start : start + 4], "big")
            if end - start < need:
                break
            start += need
            answers += 1
            data += need
            sock.sendall(REQUEST)
        if start:
            view[: end - start] = view[start:end]
            start, end = 0, end - start
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    sock.close()
    return answers, data, cpu, wall, 1, 1


def run(name: str, answer_bytes: int, ahead: int, seconds: float, *, plainly: bool = False) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.Process(target=leader, args=(listening, answer_bytes))
        process.start()
        port = listening.getsockname()[1]
        result = follow_plainly(port, ahead, seconds) if plainly else trio.run(follow, port, ahead, seconds)
        process.join()
    answers, data, cpu, wall, turns, sends = result
    print(
        f"{name:34s} {answers / wall:8.0f} answers/s {data / wall / 1e6:6.0f} MB/s  {cpu / answers * 1e6:7.1f} us CPU an answer"
        f"  {cpu / data * 1e9:5.2f} s CPU a GB  {turns:.2f} turns, {sends:.2f} sends an answer"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.profile:
        import cProfile

        with cProfile.Profile() as profile:
            run("1 MB, one at a time", 1_000_000, 1, options.seconds)
        profile.print_stats("tottime")
        return
    for _ in range(options.rounds):
        run("1 MB, one at a time", 1_000_000, 1, options.seconds)
        run("1 MB, two under way", 1_000_000, 2, options.seconds)
        run("10 MB, one at a time", 10_000_000, 1, options.seconds)
        run("100 B, one at a time (round trip)", 100, 1, options.seconds)
        run("100 B, sixteen under way", 100, 16, options.seconds)
        run("1 MB, plain blocking socket", 1_000_000, 1, options.seconds, plainly=True)
        run("100 B, plain blocking socket", 100, 1, options.seconds, plainly=True)


if __name__ == "__main__":
    main()
