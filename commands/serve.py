"""`yak serve`: runs one broker in the foreground; `serve_options` evaluates its options."""

from yak.commands.app import command
from yak.commands.options import Globals
from yak.commands.serve_options import ServeFlags, run


@command(
    examples=(
        "yak serve",
        "yak serve --role follower --node-id 2 --port 9093 --data-dir ./yak-data-2",
        "yak serve --host 0.0.0.0 --advertised broker1.example:9092 -c num.partitions=6",
        "yak serve --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",
        "yak serve --cores auto --port 9092",
        "yak serve --properties server.properties --dry-run",
    )
)
def serve(g: Globals, flags: ServeFlags) -> None:
    """Run one broker in the foreground."""
    run(g, flags)
