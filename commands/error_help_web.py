"""Explains the errors of the UI in a browser. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

WEB: dict[str, Explanation] = {
    "bad-token": explain(
        "The token for the UI in a browser cannot be used.",
        "It is part of the page's address, so it must be printable ASCII and not empty.",
        'yak ui --web --token "$(openssl rand -hex 16)"',
    ),
    "open-to-all": explain(
        "The UI in a browser is not offered to other machines without a token.",
        "Everyone who opens the page has your rights: to delete topics, read files for Produce, and stop brokers of yak up.",
        "yak ui --web --host HOST --token SECRET     only clients with the token",
        "yak ui --web --host HOST --readonly         read-only for everyone",
        "ssh -L 8090:127.0.0.1:8090 MACHINE          from your own machine, without an open port",
    ),
}
