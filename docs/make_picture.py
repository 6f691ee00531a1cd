"""Run `make demo` in a terminal of 80 columns and keep what it printed: the README's picture and its verdicts.

    .venv/bin/python docs/make_picture.py

Writes docs/images/demo-light.svg and demo-dark.svg (its first story), docs/images/demo.txt (the whole output and the
machine in words), docs/images/demo.cast (a recording for asciinema), and the block between the two `demo` comments of
README.md. Nothing is written when the demo did not hold.
"""

import codecs
import json
import os
import platform
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from yak import __version__

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
TRANSCRIPT = IMAGES / "demo.txt"
RECORDING = IMAGES / "demo.cast"
README = ROOT / "README.md"
BEGIN, END = "<!-- demo: written by `make picture` -->\n", "<!-- /demo -->\n"
COMMAND = ("make", "demo")
NEXT = "What to type next"
HEADLINE = "from the kill of the leader"
"""What the README shows of a verdict beside its first two lines, which are what held and the counts."""
COLUMNS, LINES = 80, 24
CHARACTER_WIDTH = 12.2  # Rich's, in the picture's own units
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def _rgb(text: str) -> tuple[int, int, int]:
    return int(text[0:2], 16), int(text[2:4], 16), int(text[4:6], 16)


def _theme(background: str, foreground: str, colours: str) -> TerminalTheme:
    """A theme of `rrggbb` words; `colours` are black, red, green, yellow, blue, magenta, cyan and white."""
    normal = [_rgb(word) for word in colours.split()]
    return TerminalTheme(_rgb(background), _rgb(foreground), normal, normal)


THEMES = {
    "light": _theme("f6f8fa", "1f2328", "24292f cf222e 116329 7d4e00 0550ae 8250df 1b7c83 57606a"),
    "dark": _theme("161b22", "e6edf3", "484f58 ff7b72 56d364 e3b341 79c0ff d2a8ff 56d4dd b1bac4"),
}


def run() -> list[tuple[float, str]]:
    """What a terminal gets from the demo, colours included: seconds since the start, and what came then.

    Raises CalledProcessError when the demo fails.
    """
    # CI leaves out the running count, which writes over itself; the rest is what anybody sees.
    environment = {**os.environ, "CI": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    for name in [name for name in environment if name == "NO_COLOR" or name.startswith("YAK_")]:
        del environment[name]
    folders = [folder for folder in environment["PATH"].split(os.pathsep) if Path(folder) != ROOT / ".venv" / "bin"]
    environment["PATH"] = os.pathsep.join(folders)
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own command
        COMMAND, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        parts = _read_all(ours)
    if child.returncode != 0:
        sys.stderr.write(joined(parts))
        raise subprocess.CalledProcessError(child.returncode, COMMAND)
    return parts


def _read_all(terminal: int) -> list[tuple[float, str]]:
    parts = []
    decode = codecs.getincrementaldecoder("utf-8")().decode
    started = time.monotonic()
    try:
        while part := os.read(terminal, 65536):
            parts.append((time.monotonic() - started, decode(part)))
    except OSError:  # Linux says EIO where others say end of file
        pass
    finally:
        os.close(terminal)
    return parts


def joined(parts: list[tuple[float, str]]) -> str:
    """The whole output, in lines that end with a line feed."""
    return "".join(text for _, text in parts).replace("\r\n", "\n")


def cast(parts: list[tuple[float, str]]) -> str:
    """The output as a recording (asciicast v2): a line with the terminal, and one for each piece."""
    head = {"version": 2, "width": COLUMNS, "height": LINES, "title": f"YAK: {' '.join(COMMAND)}"}
    events = [[round(seconds, 3), "o", text] for seconds, text in parts]
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in (head, *events))


def plain(output: str) -> str:
    """The output without its colours."""
    return "".join(Text.from_ansi(line).plain.rstrip() + "\n" for line in output.splitlines())


def svg(output: str, theme: TerminalTheme) -> str:
    """The first story up to its verdict as a terminal's picture, which loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.assemble(("$ ", "dim"), (" ".join(COMMAND), "bold")))
    for line in until_verdict(output):
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    picture = console.export_svg(title="YAK", theme=theme, unique_id="yak")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", picture)
    return re.sub(r'x="0" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>((?:&#160;)+)', _move_right, picture)


def _move_right(found: re.Match[str]) -> str:
    """A text that begins with blanks, begun where they end: some programs drop them."""
    y, length, rest, blanks = found.groups()
    x = blanks.count(";") * CHARACTER_WIDTH
    return f'x="{x:g}" y="{y}" textLength="{max(float(length) - x, 0):g}"{rest}>'


def until_verdict(output: str) -> list[str]:
    """The lines of the first story before the paragraph that says what to type next."""
    lines = output.splitlines()
    end = next(number for number, line in enumerate(lines) if Text.from_ansi(line).plain.rstrip() == NEXT)
    return "\n".join(lines[:end]).rstrip("\n").splitlines()


def machine() -> str:
    """The machine in words that name nobody."""
    cores = os.cpu_count() or 1
    return f"{platform.system()} {platform.machine()}, {cores} core{'s' if cores > 1 else ''}, Python " + (
        ".".join(platform.python_version_tuple()[:2])
    )


def block(transcript: str) -> str:
    """What README shows of a transcript: each story's verdict, and whose they are."""
    text, _, where = transcript.rstrip("\n").rpartition("\n\n")
    verdicts = [part.strip("\n").splitlines() for part in text.split("\n\n") if part.lstrip("\n").startswith("OK ")]
    shown = [
        line
        for verdict in verdicts
        for number, line in enumerate(verdict)
        if number <= 1 or line.strip().startswith(HEADLINE)
    ]
    version, _, where = where.partition(": ")
    return (
        "```text\n" + "\n".join(shown) + "\n```\n\n"
        f"([One run](docs/images/demo.txt) of {version}, made by `make picture`, on\n{where}.)\n"
    )


def with_block(readme: str, shown: str) -> str:
    """The README with what stands between its two comments replaced."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + shown + END + after


def main() -> None:
    """Run and write."""
    parts = run()
    output = joined(parts)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        (IMAGES / f"demo-{name}.svg").write_text(svg(output, theme), encoding="utf-8")
    transcript = f"{plain(output)}\nYAK {__version__}: {machine()}\n"
    TRANSCRIPT.write_text(transcript, encoding="utf-8")
    RECORDING.write_text(cast(parts), encoding="utf-8")
    README.write_text(with_block(README.read_text(encoding="utf-8"), block(transcript)), encoding="utf-8")
    print(
        f"{IMAGES.relative_to(ROOT)}/demo-light.svg, demo-dark.svg, demo.txt and demo.cast; README.md has its last lines"
    )


if __name__ == "__main__":
    main()
