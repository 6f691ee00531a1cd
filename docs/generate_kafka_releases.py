"""Write yak/config/kafka_releases.py: the highest version of each API in each Kafka release.

    python docs/generate_kafka_releases.py requests.go 4.3=HOST:PORT 4.4=HOST:PORT

A release that franz-go does not know yet is read from the ApiVersions answer of one of its brokers.

`requests.go` is pkg/kversion/requests.go of github.com/twmb/franz-go, which follows Kafka's commits. Its release
functions start from the one before: zXY with ZooKeeper, bXY with KRaft. An API counts if a broker of either kind
answers it; KRaft counts from 3.0, since in 2.8 it was a preview. A test compares the table with the answers of real
brokers that kafka-python has.
"""

import re
import socket
import struct
import sys
from pathlib import Path

from yak.broker.apis import TABLE
from yak.broker.apis.quorum import BETWEEN_BROKERS
from yak.protocol.codec import decode_response, encode_request
from yak.protocol.versions import API_VERSIONS

MODULE = Path(__file__).resolve().parent.parent / "yak/config/kafka_releases.py"
FIRST, FIRST_WITH_KRAFT = (2, 0), (3, 0)
_FUNCTION = re.compile(r"^func ([zb])(\d)(\d)\(\) \*release \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_OLDER = re.compile(r"^func (z0\d+)\(\) \*release \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_STEP = re.compile(
    r"(?P<base>[zb]\d+)\(\)(?:\.clone)?"
    r"|now\.incmax\((?P<raised>\d+), (?P<to>\d+)\)"
    r"|now\.addkey(?:ver)?\((?P<added>\d+)(?:, (?P<at>\d+))?\)"
    r"|delete\(now\.reqs, (?P<deleted>\d+)\)"
    r"|\{key: (?P<key>\d+)(?:, vmax: (?P<max>\d+))?\}"
)
_COMMENT = re.compile(r"//.*")


def read_releases(text: str) -> dict[tuple[str, int, int], dict[int, int]]:
    """The highest versions by API key, of each function's kind and release."""
    bodies = {f"{kind}{major}{minor}": body for kind, major, minor, body in _FUNCTION.findall(text)}
    bodies |= dict(_OLDER.findall(text))
    found: dict[str, dict[int, int]] = {}

    def read(name: str) -> dict[int, int]:
        if name not in found:
            versions: dict[int, int] = {}
            for step in _STEP.finditer(_COMMENT.sub("", bodies[name])):
                take(versions, step)
            found[name] = versions
        return dict(found[name])

    def take(versions: dict[int, int], step: re.Match[str]) -> None:
        if step["base"]:
            versions.update(read(step["base"]))
        elif step["deleted"]:
            versions.pop(int(step["deleted"]), None)
        else:
            key = int(step["raised"] or step["added"] or step["key"])
            versions[key] = int(step["to"] or step["at"] or step["max"] or 0)

    return {
        (kind, int(major), int(minor)): read(f"{kind}{major}{minor}")
        for kind, major, minor, _ in _FUNCTION.findall(text)
    }


def rows(found: dict[tuple[str, int, int], dict[int, int]]) -> tuple[list[str], dict[int, str]]:
    """The releases, and a row for each API that YAK serves to clients: `2.0:6 2.1:7` where the maximum changes."""
    releases = sorted({(major, minor) for _kind, major, minor in found if (major, minor) >= FIRST})
    kinds = {release: "zb" if release >= FIRST_WITH_KRAFT else "z" for release in releases}
    table: dict[int, str] = {}
    for key in sorted(set(TABLE) - BETWEEN_BROKERS):
        before, changes = -1, []
        for release in releases:
            highest = max(found.get((kind, *release), {}).get(key, -1) for kind in kinds[release])
            assert highest >= before, f"key {key} fell in {release}"
            if highest != before:
                changes.append(f"{release[0]}.{release[1]}:{highest}")
                before = highest
        table[key] = " ".join(changes)
    return [f"{major}.{minor}" for major, minor in releases], table


def answered(host: str, port: int) -> dict[int, int]:
    """The highest versions by API key, as a real broker answers ApiVersions."""
    request = encode_request(API_VERSIONS, 0, 1, "release", {})
    with socket.create_connection((host, port), timeout=10.0) as sock, sock.makefile("rb") as answers:
        sock.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", answers.read(4))
        answer = decode_response(API_VERSIONS, 0, answers.read(length))
    return {int(each.api_key): int(each.max_version) for each in answer.api_keys}


HEAD = '''"""The highest version of each API in each Kafka release, for `yak.as.kafka`.

Written by `docs/generate_kafka_releases.py` from the versions that franz-go (pkg/kversion) follows in Kafka's commits,
and from the answers of brokers of newer releases. The lowest versions are not here: no release from 2.0 on needs a
higher one than YAK has.
"""

from typing import Final

RELEASES: Final = (
    {releases},
)  # fmt: skip
"""The known releases, oldest first."""

_MAX_VERSIONS: Final = {{
{rows}
}}
"""By API key, the releases in which the highest version changed: `2.0:6 2.1:7`. An API without a release is in none."""


def max_versions(release: str) -> dict[int, int]:
    """The highest version of each API that a broker of this release answers, by API key. Raises ValueError."""
    last = RELEASES.index(release)
    found: dict[int, int] = {{}}
    for key, changes in _MAX_VERSIONS.items():
        for since, _, version in (change.partition(":") for change in changes.split()):
            if RELEASES.index(since) <= last:
                found[key] = int(version)
    return found
'''


def main() -> None:
    """Write the module."""
    found = read_releases(Path(sys.argv[1]).read_text())
    for argument in sys.argv[2:]:
        release, _, address = argument.partition("=")
        major, minor = map(int, release.split("."))
        host, _, port = address.rpartition(":")
        found["b", major, minor] = answered(host, int(port))
    releases, table = rows(found)
    lines = [f'    {key}: "{changes}",  # {TABLE[key].NAME}' for key, changes in table.items()]
    named = [", ".join(f'"{each}"' for each in releases[at : at + 10]) for at in range(0, len(releases), 10)]
    MODULE.write_text(HEAD.format(releases=",\n    ".join(named), rows="\n".join(lines)))


if __name__ == "__main__":
    main()
