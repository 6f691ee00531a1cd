import os
import threading

from yak.tui.web.driver import write_whole


def test_packets_of_two_threads_do_not_mix():
    reading, writing = os.pipe()
    lock = threading.Lock()
    packets = [bytes([letter]) * 200_000 for letter in b"AB"]  # three times what a pipe holds

    def write(packet: bytes) -> None:
        for _ in range(5):
            write_whole(writing, packet, lock=lock)

    threads = [threading.Thread(target=write, args=(packet,)) for packet in packets]
    for thread in threads:
        thread.start()
    found = b""
    while len(found) < 2_000_000:
        found += os.read(reading, 1_000_000)
    for thread in threads:
        thread.join()
    os.close(reading)
    os.close(writing)
    starts = range(0, 2_000_000, 200_000)
    assert [found[start : start + 200_000] for start in starts if found[start : start + 200_000] not in packets] == []


def test_write_without_a_reader_is_dropped():
    reading, writing = os.pipe()
    os.close(reading)
    assert write_whole(writing, b"frame", lock=threading.Lock()) == 5
    os.close(writing)
