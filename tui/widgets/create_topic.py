"""Dialog that offers to create a missing topic before records are sent to it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from yak.errors import UsageError, YakError
from yak.tui.widgets.dialogs import Field, FormDialog

if TYPE_CHECKING:
    from yak.tui.app import YakApp


async def ask_to_create(app: "YakApp", topic: str) -> bool:
    """Ask, and create the topic; returns whether it was created. Shows the cluster's error. Call it from a worker."""
    values = await app.push_screen_wait(
        FormDialog(
            f'Create topic "{topic}"?',
            [
                Field("partitions", "Partitions", "3", "empty: the broker's default"),
                Field("replicas", "Replicas", "", "empty: the broker's default"),
            ],
            words="It does not exist. It is created, and then the messages are sent.",
            command=lambda given: _command(topic, given),
            yes="Create and send",
        )
    )
    if values is None:
        return False
    body: dict[str, object] = {"name": topic}
    if values["partitions"]:
        body["partitions"] = int(values["partitions"])
    if values["replicas"]:
        body["replication_factor"] = int(values["replicas"])
    try:
        await app.source.ask("POST", "/topics", body=body)
    except YakError as error:
        app.note_command(_command(topic, values), f"refused: {error.message}")
        app.show_error(error)
        return False
    app.note_command(_command(topic, values), "created")
    return True


def _command(topic: str, values: Mapping[str, str]) -> str:
    """Raises UsageError for an invalid number."""
    words = ["yak topics create", topic]
    for name, flag in (("partitions", "--partitions"), ("replicas", "--replication-factor")):
        text = values[name]
        if text and not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000):
            raise UsageError("usage", f'"{text}" is not a number of {name}')
        words += [flag, text] if text else []
    return " ".join(words)
