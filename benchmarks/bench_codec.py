"""What reading a request and writing an answer costs, in microseconds a call; kio beside it where it does the same.

.venv/bin/python benchmarks/bench_codec.py
"""

import struct
import sys
import time
import uuid
from collections.abc import Callable

from kio.index import load_request_schema
from kio.serial import entity_reader

from yak.protocol.codec import decode_request, encode_response, read_request_header
from yak.protocol.hot import FetchPartitionAnswer, ProducePartitionAnswer, fetch_response, produce_response
from yak.protocol.request_check import check_body
from yak.protocol.varint import uvarint

ROUNDS = 7


def microseconds(call: Callable[[], object], calls: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e6


def produce_request(records_bytes: int) -> memoryview:
    head = struct.pack(">hhih", 0, 9, 5, 8) + b"rdkafka1\0"
    body = b"\0" + struct.pack(">hi", -1, 30_000) + b"\2\6topic\2" + bytes(4)
    return memoryview(head + body + uvarint(records_bytes + 1) + bytes(records_bytes) + b"\0\0\0")


def fetch_request(partitions: int) -> memoryview:
    rows = b"".join(struct.pack(">iiqiqiB", index, -1, 5, -1, -1, 1 << 20, 0) for index in range(partitions))
    front = struct.pack(">iiiibii", -1, 500, 1, 1000, 0, 0, -1)
    return memoryview(front + b"\2\6topic" + uvarint(partitions + 1) + rows + b"\0\1\1\0")


def metadata_answer(partitions: int) -> dict[str, object]:
    rows = [
        {
            "partition_index": index,
            "leader_id": 1,
            "leader_epoch": 3,
            "replica_nodes": [1, 2, 3],
            "isr_nodes": [1, 2, 3],
        }
        for index in range(partitions)
    ]
    topic = {"name": "topic", "topic_id": uuid.UUID(int=5), "partitions": rows}
    return {"brokers": [{"node_id": 1, "host": "h", "port": 9092}], "cluster_id": "c", "topics": [topic]}


def main() -> None:
    cases: list[tuple[str, Callable[[], object], int]] = []
    small, large = produce_request(100), produce_request(1 << 20)
    read_produce = entity_reader(load_request_schema(0, 9))
    cases.append(("request header v2", lambda: read_request_header(small), 20_000))
    cases.append(("Produce v9 request, 100 B", lambda: decode_request(0, 9, small, 19), 20_000))
    cases.append(("  kio, unchecked", lambda: read_produce(small, 19), 20_000))
    cases.append(("  the check kio needs", lambda: check_body(load_request_schema(0, 9), small, 19), 5_000))
    cases.append(("Produce v9 request, 1 MiB", lambda: decode_request(0, 9, large, 19), 5_000))
    cases.append(("  kio, unchecked", lambda: read_produce(large, 19), 500))
    read_fetch = entity_reader(load_request_schema(1, 12))
    for partitions in (1, 10, 1000):
        frame = fetch_request(partitions)
        cases.append(
            (
                f"Fetch v12 request, {partitions} partitions",
                lambda f=frame: decode_request(1, 12, f, 0),
                10_000 // partitions,
            )
        )
        cases.append(("  kio, unchecked", lambda f=frame: read_fetch(f, 0), 10_000 // partitions))
    produced = ProducePartitionAnswer(0, 0, 77, -1, 0)
    cases.append(("Produce v9 answer", lambda: produce_response(9, 5, [("topic", [produced])]), 20_000))
    fetched = FetchPartitionAnswer(0, 0, 77, 77, 0, bytes(50_000))
    cases.append(("Fetch v12 answer, 50 kB", lambda: fetch_response(12, 5, 0, 0, 0, [("topic", [fetched])]), 20_000))
    idle = [FetchPartitionAnswer(index, 0, 77, 77, 0) for index in range(1000)]
    cases.append(("Fetch v12 answer, 1000 partitions", lambda: fetch_response(12, 5, 0, 0, 0, [("topic", idle)]), 20))
    for partitions in (3, 1000):
        answer = metadata_answer(partitions)
        cases.append(
            (
                f"Metadata v12 answer, {partitions} partitions",
                lambda a=answer: encode_response(3, 12, 5, a),
                3000 // partitions,
            )
        )
    for name, call, calls in cases:
        call()
        sys.stdout.write(f"{name:<40} {microseconds(call, calls):10.2f} us\n")


if __name__ == "__main__":
    main()
