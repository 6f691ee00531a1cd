"""Lends clusters to a test run in another process: `python -m yak.testing.remote`, or the executable with these arguments.

pytest-yak talks to it, so that nothing of YAK and its requirements is imported into a user's tests. A request is a line
of JSON on standard input, its answer a line on standard output, in the order of the requests:

    {"call": "lend", "brokers": 3, "configs": {"num.partitions": "6"}, "fresh": false}    {"result": {"cluster": 1, ...}}
    {"call": "kill", "cluster": 1, "arguments": {"node": 2}}                              {"result": null}
    {"call": "give_back", "cluster": 1, "fresh": false}                                   {"result": null}

A refusal is `{"error": {"code", "message", "why", "try"}}`. At the end of standard input all clusters end.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, TextIO

from yak.errors import UsageError, YakError
from yak.testing.cluster import Cluster
from yak.testing.session import Session
from yak.testing.shape import ClusterShape

METHODS: Final = (
    "add_fault",
    "clear_faults",
    "create_topic",
    "failover",
    "isr",
    "kill",
    "leader_of",
    "list_faults",
    "log",
    "log_tails",
    "pause",
    "restart",
    "resume",
    "wait_until_healthy",
)
"""What a test may call of a cluster. `brokers` is a call too."""


class Lender:
    """Answers requests; holds the clusters that are lent, by number."""

    def __init__(self) -> None:
        self._session = Session()
        self._lent: dict[int, Cluster] = {}
        self._count = 0

    def answer(self, line: str) -> dict[str, Any]:
        """The answer to one request."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise UsageError("usage", "a request is an object of JSON")
            return {"result": self._call(request)}
        except YakError as error:
            return {"error": error.as_json()}
        except Exception as error:  # noqa: BLE001 - whatever it is, the other clusters must go on
            code = "system" if isinstance(error, OSError) else "usage"
            return {"error": {"code": code, "message": f"{type(error).__name__}: {error}", "why": None, "try": []}}

    def close(self) -> None:
        """End all clusters."""
        self._session.close()

    def _call(self, request: Mapping[str, Any]) -> object:
        call = request["call"]
        if call == "lend":
            shape = ClusterShape.of(request["brokers"], request["configs"])
            cluster = self._session.lend(shape, fresh=request["fresh"])
            self._count += 1
            self._lent[self._count] = cluster
            return {"cluster": self._count, "bootstrap": cluster.bootstrap, "data_dir": cluster.data_dir}
        cluster = self._lent[request["cluster"]]
        if call == "give_back":
            del self._lent[request["cluster"]]
            self._session.give_back(cluster, fresh=request["fresh"])
            return None
        if call == "brokers":
            return [asdict(node) for node in cluster.brokers]
        if call not in METHODS:
            raise UsageError(
                "usage", f"{call!r} is no call", why=f"calls are lend, give_back, brokers, {', '.join(METHODS)}"
            )
        method: Callable[..., object] = getattr(cluster, call)
        return method(**request.get("arguments", {}))


def serve(requests: Iterable[str], answers: TextIO) -> None:
    """Answer every request until there are no more, then end all clusters."""
    lender = Lender()
    try:
        for line in requests:
            answers.write(json.dumps(lender.answer(line)) + "\n")
            answers.flush()
    finally:
        lender.close()


def main() -> None:
    """Serve standard input. Ctrl+C reaches the whole terminal: the test run decides when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = sys.stdout
    sys.stdout = sys.stderr
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
