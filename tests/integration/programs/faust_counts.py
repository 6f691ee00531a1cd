"""A Faust program: counts the records of topic `orders` by key, in a table with a changelog, into topic `counts`.

Runs in an environment of its own: `faust_counts.py BOOTSTRAP DATA_DIR`.
"""

import sys

import faust


def main(bootstrap: str, data_dir: str) -> None:
    """Process until SIGTERM."""
    app = faust.App(
        "counts",
        broker=f"aiokafka://{bootstrap}",
        datadir=data_dir,
        topic_partitions=3,
        topic_replication_factor=3,
        broker_commit_interval=0.2,
        web_enabled=False,
    )
    orders = app.topic("orders", key_type=str, value_type=str, key_serializer="raw", value_serializer="raw")
    counts = app.topic("counts", key_type=str, value_type=str, key_serializer="raw", value_serializer="raw")
    table = app.Table("numbers", default=int)

    @app.agent(orders)
    async def count(stream: faust.Stream) -> None:
        async for event in stream.events():
            table[event.key] += 1
            await counts.send(key=event.key, value=str(table[event.key]))

    sys.argv[1:] = ["worker", "--loglevel", "info"]
    app.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
