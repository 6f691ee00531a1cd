"""What the shell costs a frame: pipelined small frames through a core that answers each with 60 bytes at once.

    python benchmarks/bench_shell.py [--frames N] [--size BYTES] [--profile]

Prints microseconds of broker CPU a frame, once with the core alone and once through a loopback socket; the difference
is the shell's and the kernel's. A client process sends windows of frames and counts the answers.
"""

import argparse
import multiprocessing
import socket
import struct
import time

import trio

from yak.config.listeners import PLAINTEXT_LISTENER
from yak.core.events import Effect, Event, FrameReceived, Reply
from yak.server.disk import RealDisk
from yak.server.listener import Acceptor
from yak.server.listening_sockets import Bound, bind, bound_port, start_listening
from yak.server.shell import Shell

ANSWER = struct.pack(">i", 56) + bytes(56)


class AnsweringCore:
    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if type(event) is FrameReceived:
            return [Reply(event.connection_id, [ANSWER])]
        return []

    def next_due(self) -> int | None:
        return None

    held_bytes = 0

    def backlog(self, connection_id: int) -> int:
        return 0


def client(port: int, frames: int, size: int, window: int, results: "multiprocessing.Queue[float]") -> None:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    batch = (struct.pack(">i", size) + bytes(size)) * window
    started = time.perf_counter()
    answered = sent = 0
    while answered < frames * len(ANSWER):
        while sent < frames and sent * len(ANSWER) - answered < 4 * window * len(ANSWER):
            sock.sendall(batch)
            sent += window
        answered += len(sock.recv(1 << 20))
    results.put(time.perf_counter() - started)
    sock.close()


async def serve(frames: int, size: int, window: int) -> None:
    results: multiprocessing.Queue[float] = multiprocessing.Queue()
    async with trio.open_nursery() as nursery:
        shell = Shell(AnsweringCore(), nursery, disk=RealDisk(max_open_files=1))
        sockets = bind("127.0.0.1", 0)
        start_listening(sockets, "127.0.0.1")
        nursery.start_soon(Acceptor(shell).run, [Bound(PLAINTEXT_LISTENER, sockets)])
        nursery.start_soon(shell.selector.run)
        process = multiprocessing.Process(target=client, args=(bound_port(sockets), frames, size, window, results))
        process.start()
        cpu = time.process_time()
        took = await trio.to_thread.run_sync(results.get)
        cpu = time.process_time() - cpu
        counters = shell.counters
        print(
            f"window {window:4d}: {frames / took / 1000:6.0f} k frames/s, {cpu / frames * 1e6:5.2f} us CPU a frame, "
            f"{counters.frames / counters.turns:.1f} frames a turn, {counters.sends / counters.frames:.3f} sends a frame"
        )
        process.join()
        nursery.cancel_scope.cancel()


def core_alone(frames: int, size: int) -> None:
    core = AnsweringCore()
    view = memoryview(bytes(size))
    started = time.process_time()
    for _ in range(frames):
        core.step(FrameReceived(1, view[0:size]), 0)
    print(f"core alone:  {(time.process_time() - started) / frames * 1e6:.2f} us a frame")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=150)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    core_alone(options.frames, options.size)
    for window, share in ((1, 20), (8, 5), (64, 1), (256, 1)):
        if options.profile and window == 256:
            import cProfile

            profile = cProfile.Profile()
            profile.enable()
            trio.run(serve, options.frames // share, options.size, window)
            profile.disable()
            profile.print_stats("tottime")
        else:
            trio.run(serve, options.frames // share, options.size, window)


if __name__ == "__main__":
    main()
