"""Explains the errors of the UI in a browser. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

WEB: dict[str, Explanation] = {
    "bad-token": explain(
        "The token for the UI in a browser cannot be used.",
        "It comes in the address of the page, so it must be printable ASCII, and not empty.",
        'yak ui --web --token "$(openssl rand -hex 16)"',
    ),
    "open-to-all": explain(
        "The UI in a browser is not offered to other machines without a token.",
        "Whoever opens the page acts as you: deletes topics, reads the files that Produce may read, stops brokers of yak up.",
        "yak ui --web --host HOST --token SECRET     only who has the token",
        "yak ui --web --host HOST --readonly         everybody may look, nobody may change",
        "ssh -L 8090:127.0.0.1:8090 MACHINE          from your own machine, with nothing opened",
    ),
}
