"""Explains the errors of the terminal UI, and of the cluster that it operates on. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

UI: dict[str, Explanation] = {
    "bad-answer": explain(
        "A broker's HTTP answer cannot be understood.",
        "A proxy stands between, or something else listens there.",
        "yak brokers describe 1     shows yak.http.listeners, the address that the broker tells",
    ),
    "bad-bench-option": explain(
        "A field of the Bench screen has a value that yak bench does not take.",
        "It is outside of its bounds, or of another kind.",
        "yak bench produce --help",
    ),
    "bad-name": explain(
        "A template cannot have this name.",
        "It becomes the name of a file.",
        "letters, digits, spaces and . _ - , with a letter or digit first",
    ),
    "bad-number": explain("A field that is a number holds none.", "There are other letters in it.", "digits alone"),
    "bad-path": explain(
        "The file to export to has another ending than the format.",
        "The name says what is in it: .ndjson or .csv.",
        "choose the other format, or another name",
    ),
    "bad-topics": explain(
        "A list of topics and partitions cannot be read.",
        "It is names with commas; a name may have a colon and partitions behind it.",
        "yak ui messages orders,payments:0,2",
    ),
    "demo-ended": explain(
        "The cluster of yak ui --demo is gone.",
        "Its keeper was killed, or could not start it.",
        "yak ui --demo",
        "yak up",
    ),
    "export-cancelled": explain("An export was stopped.", "It was asked to; no file is left.", "x"),
    "export-exists": explain(
        "A file of this name is there already.", "An export writes over nothing.", "choose another name"
    ),
    "export-failed": explain(
        "An export could not be written.", "The folder is full, or may not be written to.", "choose another folder"
    ),
    "key-clash": explain(
        "A key would do two things on one screen.",
        "[keys] of the config gives it to both actions, or to one that stands beside the other.",
        "yak ui, then :keys          shows every action with its keys",
    ),
    "no-broker": explain(
        "No broker answers over HTTP.",
        "They are down, or their HTTP ports cannot be reached from here.",
        "yak doctor",
        "yak up --status",
    ),
    "no-http": explain(
        "The brokers answer no HTTP, which yak ui lives on.",
        "They run with --no-http, or are no YAK brokers.",
        "yak serve --http-port 8080",
        "yak topics list             this and other commands work with any Kafka",
    ),
    "no-terminal": explain(
        "yak ui has no terminal to draw on.",
        "Standard output is a pipe or a file.",
        "yak ui --plain              a line for each change",
        "yak ui --web                in a browser",
    ),
    "not-led": explain(
        "This broker leads nothing that could be moved.",
        "Its partitions are led by others, or have no other replica in sync.",
        "yak isr",
    ),
    "not-recorded": explain(
        "A recorded cluster was asked for what was not recorded.",
        "Recordings are for tests and pictures, and hold what their screens ask for.",
        "python tests/tui/record.py",
    ),
    "nothing-to-change": explain(
        "A form was sent as it was.", "No field was changed.", "change a field, or leave by escape"
    ),
    "reader-failed": explain(
        "Reading messages failed.", "What the client library said stands beside it.", "yak consume TOPIC", "yak doctor"
    ),
    "redis-not-ours": explain(
        "This Redis server was not started by yak up.",
        "The cluster uses one that runs elsewhere; yak stops only what it started.",
        "stop it where it runs",
    ),
    "redis-not-running": explain(
        "The cluster's Redis server does not run.", "It was stopped, or died.", "yak up          starts it again"
    ),
    "template-unreadable": explain(
        "A saved template cannot be read.", "The file is no TOML, or lacks a field.", "delete it, and save it again"
    ),
    "too-many": explain("No more subscriptions fit on the Consumer screen.", "Six stand side by side.", "X ends one"),
    "unknown-action": explain(
        "[keys] of the config names an action that there is not.",
        "Its name is misspelt, or of another version.",
        "yak ui, then :keys          shows every action",
    ),
    "unknown-screen": explain(
        "yak ui has no such screen.", "Its name is misspelt.", "yak ui topics", "yak ui messages orders"
    ),
    "unknown-template": explain("There is no template of this name.", "It was not saved here.", "t lists them"),
    "unknown-theme": explain(
        "There is no such theme.", "Its name is misspelt.", "yak ui --theme yak-light", "YAK_THEME=mono yak ui"
    ),
    "unknown-zone": explain("There is no such zone of times.", "Its name is misspelt.", ":zone utc"),
}
