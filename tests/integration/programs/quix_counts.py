"""A Quix Streams program: counts the records of topic `orders` by key, in a state with a changelog, into topic `counts`.

Runs in an environment of its own: `quix_counts.py BOOTSTRAP STATE_DIR GUARANTEE`.
"""

import sys

from quixstreams import Application, State


def count(_value: str, state: State) -> str:
    """The number of this key's records so far."""
    number = state.get("number", 0) + 1
    state.set("number", number)
    return str(number)


def main(bootstrap: str, state_dir: str, guarantee: str) -> None:
    """Process until SIGTERM."""
    app = Application(
        bootstrap,
        consumer_group="counts",
        auto_offset_reset="earliest",
        state_dir=state_dir,
        commit_interval=0.2,
        processing_guarantee=guarantee,
    )
    orders = app.topic("orders", key_deserializer="str", value_deserializer="str")
    counts = app.topic("counts", key_serializer="str", value_serializer="str")
    app.dataframe(orders).apply(count, stateful=True).to_topic(counts)
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
