"""`yak help SLUG` for `yak chaos`."""

from yak.commands.error_explanation import Explanation, explain

CHAOS: dict[str, Explanation] = {
    "abuse-remote": explain(
        "The address to attack is not of this machine.",
        "An attack takes a broker away from everyone who uses it.",
        "yak chaos abuse    start a broker for the attack; --remote: attack another machine all the same",
    ),
    "bad-history": explain(
        "A line of a history cannot be read.",
        "Each line is a JSON list that begins with send, poll, assign, commit, txn, final or first.",
        "yak chaos run --history FILE",
    ),
    "chaos-data-dir": explain(
        "The folder for the run is not empty.",
        "Every record of a run is counted, so it starts from nothing.",
        "name a folder that does not exist",
    ),
    "chaos-duration": explain(
        "The duration is too short or too long.",
        "Clients write for 5 seconds to 24 hours.",
        "yak chaos run --duration 60s",
    ),
    "chaos-file": explain(
        "The file for the time line or the history cannot be written.",
        "It is tried before the run, so that nothing is lost after it.",
        "name a file in a folder that you may write to",
    ),
    "fault-needs-processes": explain(
        "This fault needs brokers that yak chaos run started itself.",
        "With --bootstrap nothing of the cluster is touched but a topic of its own; only clients are broken.",
        "yak chaos run --bootstrap ADDRESS --faults clients",
    ),
    "history-unreadable": explain(
        "The history cannot be read.",
        "There is no such file, or it is no text.",
        "yak chaos run --history FILE",
    ),
    "unknown-attack": explain(
        "There is no attack of this name.",
        "--attacks takes names from the table of yak chaos abuse, or all.",
        "yak chaos abuse --attacks all",
    ),
    "unknown-fault": explain(
        "There is no fault of this name.",
        "--faults takes names from yak chaos faults, all, none, and all,-NAME.",
        "yak chaos faults",
    ),
}
