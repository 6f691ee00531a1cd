"""`yak ui --web` around the tiny app, as a process: `python serve_tiny_app.py JSON`, with the fields of WebOptions."""

import json
import sys
from pathlib import Path

from yak.tui.web.options import WebOptions
from yak.tui.web.server import serve

if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    program = Path(__file__).with_name(settings.pop("program", "tiny_app.py"))
    command = [sys.executable, "-P", str(program), *settings.pop("arguments", [])]

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    serve(WebOptions(**settings), command, say=say, warn=lambda line: say(f"warning: {line}"))
