"""Collect the licences of everything the executable carries into one file, THIRD-PARTY-NOTICES.txt.

    python packaging/notices.py OUTPUT

The list is not kept by hand: it is what `yak-broker` requires, followed to the end, plus Python itself, and the C
libraries that some of these wheels hold inside (librdkafka, the metadata server), whose texts are in those wheels.
"""

import re
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

LICENCE_NAMES = re.compile(r"(^|/)(licen[cs]e|copying|notice|authors)[^/]*$", re.IGNORECASE)
RULE = "=" * 100

# What a wheel carries in binary form without shipping its text; the words are the licence's own.
LIBRDKAFKA = """librdkafka is inside the confluent-kafka wheel.

librdkafka - Apache Kafka C driver library

Copyright (c) 2012-2022, Magnus Edenhill
              2023, Confluent Inc.
All rights reserved.

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:

1. Redistributions of source code must retain the above copyright notice,
   this list of conditions and the following disclaimer.
2. Redistributions in binary form must reproduce the above copyright notice,
   this list of conditions and the following disclaimer in the documentation
   and/or other materials provided with the distribution.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE
ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR CONTRIBUTORS BE
LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR
CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF
SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS
INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN
CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE)
ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE
POSSIBILITY OF SUCH DAMAGE."""


def bundled(root: str = "yak-broker") -> list[Distribution]:
    """Every distribution that `root` needs on this machine, by name, without `root` itself."""
    found: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        for requirement in distribution(waiting.pop()).requires or ():
            name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
            if "extra ==" in requirement or name in found:
                continue
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:
                continue  # for another platform or Python, so not in this executable
            waiting.append(name)
    return [found[name] for name in sorted(found)]


def licence_texts(dist: Distribution) -> list[tuple[str, str]]:
    """The licence files inside a distribution: (file name, text)."""
    texts = []
    for file in dist.files or ():
        if LICENCE_NAMES.search(str(file)) and file.suffix.lower() not in {".py", ".pyc"}:
            texts.append((file.name, Path(str(dist.locate_file(file))).read_text(errors="replace").strip()))
    return sorted(set(texts))


def licence_name(dist: Distribution) -> str:
    """What a distribution says of its own licence, in a few words."""
    metadata = dist.metadata
    classifiers = [
        line.rsplit("::", 1)[1].strip() for line in metadata.get_all("Classifier") or [] if "License ::" in line
    ]
    said = metadata.get("License-Expression") or ", ".join(classifiers) or (metadata.get("License") or "see below")
    return said.splitlines()[0]


def python_licence() -> str:
    """The text of Python's own licence, which is carried with the interpreter."""
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), f"{sys.base_prefix}/share/doc/python3"):
        for name in ("LICENSE.txt", "LICENSE"):
            path = Path(folder) / name
            if path.exists():
                return path.read_text(errors="replace").strip()
    return "Python Software Foundation License Version 2: https://docs.python.org/3/license.html"


def notices() -> str:
    """The whole file."""
    dists = bundled()
    parts = [
        "YAK is MIT licensed (LICENSE). Its executable carries the software below, each under its own licence.\n"
        "crc32c is LGPL-2.1-or-later: it stays a separate shared module (crc32c/_crc32c*.so in the one-folder build),\n"
        "which you may replace with your own build of it; its source is on PyPI under the version named here.\n"
    ]
    parts += [f"  {dist.name} {dist.version}: {licence_name(dist)}" for dist in dists]
    parts += ["  librdkafka (inside confluent-kafka): BSD-2-Clause", "  Python: PSF-2.0", ""]
    for dist in dists:
        texts = licence_texts(dist) or [("", f"Licence: {licence_name(dist)}. The wheel carries no licence text.")]
        for name, text in texts:
            parts += [RULE, f"{dist.name} {dist.version}   {name}", RULE, text, ""]
    parts += [RULE, "librdkafka", RULE, LIBRDKAFKA, "", RULE, "Python", RULE, python_licence(), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(notices())
