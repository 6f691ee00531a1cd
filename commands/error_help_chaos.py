"""`yak help SLUG` for `yak chaos`."""

from yak.commands.error_explanation import Explanation, explain

CHAOS: dict[str, Explanation] = {
    "abuse-remote": explain(
        "The address to attack is on another machine.",
        "An attack may make the broker unusable for its clients.",
        "yak chaos abuse    start a broker for the attack; --remote: allow another machine",
    ),
    "bad-history": explain(
        "A line of a history cannot be read.",
        "Each line is a JSON list that begins with send, poll, assign, commit, txn, final or first.",
        "yak chaos run --history FILE",
    ),
    "chaos-data-dir": explain(
        "The folder for the run is not empty.",
        "A run counts every record, so it needs an empty folder.",
        "name a folder that does not exist",
    ),
    "chaos-duration": explain(
        "The duration is too short or too long.",
        "Clients can write for 5 seconds to 24 hours.",
        "yak chaos run --duration 60s",
    ),
    "chaos-file": explain(
        "The file for the time line or the history cannot be written.",
        "The check is made before the run, so that no result is lost.",
        "name a file in a folder that you may write to",
    ),
    "fault-needs-processes": explain(
        "This fault needs brokers that yak chaos run started itself.",
        "With --bootstrap, a run uses its own topic and injects faults into clients only.",
        "yak chaos run --bootstrap ADDRESS --faults clients",
    ),
    "history-unreadable": explain(
        "The history cannot be read.",
        "The file does not exist, or is not a text file.",
        "yak chaos run --history FILE",
    ),
    "unknown-attack": explain(
        "No attack has that name.",
        "--attacks takes names from the table of yak chaos abuse, or all.",
        "yak chaos abuse --attacks all",
    ),
    "unknown-fault": explain(
        "No fault has that name.",
        "--faults takes names from yak chaos faults, all, none, and all,-NAME.",
        "yak chaos faults",
    ),
}
