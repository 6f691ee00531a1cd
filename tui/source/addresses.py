"""Finds the HTTP addresses of a cluster's brokers with Kafka requests. Blocks: call it in a thread."""

from yak.client.admin import Admin
from yak.errors import Unreachable

HTTP_LISTENERS = "yak.http.listeners"


def http_addresses(servers: str) -> dict[int, str]:
    """HTTP addresses by node id.

    Raises Unreachable: `unreachable`, `wrong-protocol`, or `no-http` if no broker names one.
    """
    admin = Admin(servers, timeout_ms=5_000)
    found: dict[int, str] = {}
    for node_id in admin.metadata().brokers:
        for config in admin.configs("broker", str(node_id)):
            if config.name == HTTP_LISTENERS and config.value:
                found[node_id] = config.value
        if found:
            break  # this broker knows the others
    if not found:
        raise Unreachable(
            "no-http",
            f"the brokers at {servers} answer no HTTP, which this screen lives on",
            why="they run with --no-http, or are no YAK brokers",
            try_=("yak serve --http-port 8080", "yak topics, yak consume and the other commands work with any Kafka"),
        )
    return found
