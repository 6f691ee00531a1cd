"""Where a cluster's brokers answer HTTP, found out by Kafka's own requests. Blocks: for a thread."""

from yak.client.admin import Admin
from yak.errors import Unreachable

HTTP_LISTENERS = "yak.http.listeners"


def http_addresses(servers: str) -> dict[int, str]:
    """By node id. Raises Unreachable: `unreachable`, `wrong-protocol`, or `no-http` when no broker says an address."""
    admin = Admin(servers, timeout_ms=5_000)
    found: dict[int, str] = {}
    for node_id in admin.metadata().brokers:
        for config in admin.configs("broker", str(node_id)):
            if config.name == HTTP_LISTENERS and config.value:
                found[node_id] = config.value
        if found:
            break  # that one knows the others
    if not found:
        raise Unreachable(
            "no-http",
            f"the brokers at {servers} answer no HTTP, which this screen lives on",
            why="they run with --no-http, or are no YAK brokers",
            try_=("yak serve --http-port 8080", "yak topics, yak consume and the other commands work with any Kafka"),
        )
    return found
