"""Explains the errors of the terminal UI, and of the cluster that it operates on. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

UI: dict[str, Explanation] = {
    "bad-answer": explain(
        "A broker's HTTP response is invalid.",
        "A proxy is in between, or another program listens there.",
        "yak brokers describe 1     shows yak.http.listeners, the address that the broker advertises",
    ),
    "bad-bench-option": explain(
        "A field of the Bench screen has a value that yak bench does not take.",
        "It is out of bounds, or has the wrong type.",
        "yak bench produce --help",
    ),
    "bad-number": explain("A number field has no number.", "It has other characters than digits.", "digits only"),
    "bad-path": explain(
        "The file extension does not match the export format.",
        "The extension is .ndjson or .csv.",
        "choose the other format, or another name",
    ),
    "bad-topics": explain(
        "A list of topics and partitions cannot be read.",
        "Names are separated by commas; a colon and partitions may follow a name.",
        "yak ui messages orders,payments:0,2",
    ),
    "demo-ended": explain(
        "The cluster of yak ui --demo ended.",
        "Its supervisor was killed, or could not start it.",
        "yak ui --demo",
        "yak up",
    ),
    "export-cancelled": explain("An export was cancelled.", "The user cancelled it; no file is left.", "x"),
    "export-exists": explain("A file with that name exists.", "An export overwrites no file.", "choose another name"),
    "export-failed": explain(
        "An export could not be written.", "The disk is full, or the folder is not writable.", "choose another folder"
    ),
    "key-clash": explain(
        "A key is bound to two actions on one screen.",
        "[keys] of the config binds it to both actions.",
        "yak ui, then :keys          lists all actions with their keys",
    ),
    "no-broker": explain(
        "No broker answers over HTTP.",
        "The brokers are down, or their HTTP ports are unreachable.",
        "yak doctor",
        "yak up --status",
    ),
    "no-http": explain(
        "The brokers serve no HTTP, which yak ui needs.",
        "They run with --no-http, or are not YAK brokers.",
        "yak serve --http-port 8080",
        "yak topics list             works with any Kafka, as other commands do",
    ),
    "no-terminal": explain(
        "yak ui has no terminal to draw on.",
        "Standard output is a pipe or a file.",
        "yak ui --plain              a line for each change",
        "yak ui --web                in a browser",
    ),
    "not-led": explain(
        "This broker leads no partition that can move.",
        "Other brokers lead its partitions, or no other replica is in the ISR.",
        "yak isr",
    ),
    "not-recorded": explain(
        "The recorded cluster does not have the requested data.",
        "Recordings are for tests and screenshots, and have only the data of these screens.",
        "python tests/tui/record.py",
    ),
    "nothing-to-change": explain("The form has no change.", "No field was changed.", "change a field, or press escape"),
    "reader-failed": explain(
        "Reading messages failed.", "The message has the client library's error.", "yak consume TOPIC", "yak doctor"
    ),
    "redis-not-ours": explain(
        "This Redis server was not started by yak up.",
        "The cluster uses an external Redis. yak stops only processes that it started.",
        "stop it where it runs",
    ),
    "redis-not-running": explain(
        "The cluster's Redis server is not running.", "It was stopped, or died.", "yak up          starts it again"
    ),
    "too-many": explain("The Consumer screen has its maximum of subscriptions.", "The maximum is six.", "X ends one"),
    "unknown-action": explain(
        "[keys] of the config names an unknown action.",
        "The name is misspelt, or from another version.",
        "yak ui, then :keys          lists all actions",
    ),
    "unknown-screen": explain(
        "yak ui has no such screen.", "Its name is misspelt.", "yak ui topics", "yak ui messages orders"
    ),
    "unknown-theme": explain(
        "The theme does not exist.", "The name is misspelt.", "yak ui --theme yak-light", "YAK_THEME=mono yak ui"
    ),
    "unknown-zone": explain("The time zone does not exist.", "The name is misspelt.", ":zone utc"),
}
