"""Write the wheels beside yak-broker's own: yak-broker-bin, the built executable, and pytest-yak, the plugin on top of it.

    python packaging/wheels.py [--out build/wheel]

yak-broker-bin needs dist/yak of `packaging/build.py`, and gets the tag of the machine that built it: on Linux the wheel
is for its C library or a newer one. The wheels are the same, byte for byte, for the same input.
"""

import argparse
import base64
import hashlib
import os
import platform
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "dist" / "yak"
SHARED = ("plugin.py", "fixture_options.py", "shape.py", "faults.py")
"""Files of yak/testing that pytest-yak has too, under its own name."""
_OLDEST = (1980, 1, 1, 0, 0, 0)
_METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.11
{more}Description-Content-Type: text/markdown

{readme}"""


@dataclass(frozen=True)
class Wheel:
    """A wheel to write: `files` by their path in it, content and whether it is executable."""

    name: str
    version: str
    summary: str
    readme: str
    files: Mapping[str, tuple[bytes, bool]]
    tag: str = "py3-none-any"
    requires: tuple[str, ...] = ()
    entry_points: str = ""
    classifiers: tuple[str, ...] = ()
    licences: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """Name and version, as files of a wheel have them."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    def write(self, folder: Path) -> Path:
        """Write the wheel and return its path."""
        info = f"{self.stem}.dist-info"
        more = [f"Classifier: {each}" for each in self.classifiers] + [
            f"Requires-Dist: {each}" for each in self.requires
        ]
        metadata = _METADATA.format(
            name=self.name,
            version=self.version,
            summary=self.summary,
            more="".join(f"{line}\n" for line in more),
            readme=self.readme,
        )
        pure = str(self.tag.endswith("-any")).lower()
        wheel = f"Wheel-Version: 1.0\nGenerator: yak\nRoot-Is-Purelib: {pure}\nTag: {self.tag}\n"
        own = {"METADATA": metadata.encode(), "WHEEL": wheel.encode(), "entry_points.txt": self.entry_points.encode()}
        own |= {f"licenses/{name}": text for name, text in self.licences.items()}
        files = dict(sorted(self.files.items())) | {f"{info}/{name}": (text, False) for name, text in own.items()}
        record = "".join(f"{name},{_digest(content)},{len(content)}\n" for name, (content, _) in files.items())
        files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), False)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.stem}-{self.tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, (content, is_executable) in files.items():
                entry = zipfile.ZipInfo(name, _OLDEST)
                entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        return path


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def project_version() -> str:
    """The version in pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def platform_tag(system: str, machine: str, libc: str, mac: str) -> str:
    """The tag of an executable that was built on this machine.

    A Linux machine without glibc (musl) raises ValueError: YAK's requirements have no wheels for it.
    """
    if system == "darwin":
        return f"py3-none-macosx_{mac.split('.', maxsplit=1)[0]}_0_{machine}"
    if not re.fullmatch(r"\d+\.\d+", libc):
        raise ValueError("this machine has no glibc: yak-broker-bin cannot be built on it")
    return f"py3-none-manylinux_{libc.replace('.', '_')}_{machine}"


def bin_wheel(version: str, folder: Path, tag: str) -> Wheel:
    """yak-broker-bin with the executable in `folder`. Raises FileNotFoundError if it was not built."""
    if not (folder / "yak").exists():
        raise FileNotFoundError(f"{folder / 'yak'} is not there: run packaging/build.py")
    own = ROOT / "packaging" / "yak_broker_bin"
    files = {f"yak_broker_bin/{path.name}": (path.read_bytes(), False) for path in sorted(own.glob("*.py"))}
    for path in _files_below(folder):
        name = f"yak_broker_bin/yak/{path.relative_to(folder).as_posix()}"
        files[name] = (path.read_bytes(), os.access(path, os.X_OK))
    return Wheel(
        "yak-broker-bin",
        version,
        "YAK as an executable: a replicated, Kafka-compatible log broker without requirements",
        (own / "README.md").read_text(),
        files,
        tag,
        entry_points="[console_scripts]\nyak = yak_broker_bin.__main__:main\n",
        classifiers=(
            "Development Status :: 4 - Beta",
            "Environment :: Console",
            "Intended Audience :: Developers",
            "Operating System :: MacOS" if "macosx" in tag else "Operating System :: POSIX :: Linux",
        ),
        licences=_licences(folder),
    )


def pytest_wheel(version: str) -> Wheel:
    """pytest-yak: its own session, and the files of yak/testing that need nothing else of YAK."""
    own = ROOT / "packaging" / "pytest_yak"
    files = {f"pytest_yak/{path.name}": (path.read_bytes(), False) for path in sorted(own.glob("*.py"))}
    for name in SHARED:
        text = (ROOT / "yak" / "testing" / name).read_text()
        text = text.replace("yak.testing", "pytest_yak").replace("yak.errors", "pytest_yak.errors")
        files[f"pytest_yak/{name}"] = (text.encode(), False)
    files["pytest_yak/py.typed"] = (b"", False)
    return Wheel(
        "pytest-yak",
        version,
        "A pytest plugin: a real, replicated, Kafka-compatible cluster for a test, without Java or containers",
        (own / "README.md").read_text(),
        files,
        requires=(f"yak-broker-bin=={version}",),
        entry_points="[pytest11]\nyak = pytest_yak.plugin\n",
        classifiers=(
            "Development Status :: 4 - Beta",
            "Framework :: Pytest",
            "Intended Audience :: Developers",
            "Topic :: Software Development :: Testing",
        ),
        licences=_licences(None),
    )


def _licences(folder: Path | None) -> dict[str, bytes]:
    found = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    for path in sorted(folder.rglob("THIRD-PARTY-NOTICES.txt")) if folder is not None else ():
        found[path.name] = path.read_bytes()
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    """Files in the order of their names; a link to one is a file, since a wheel has no links."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def main(argv: list[str]) -> int:
    """Write both wheels; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the wheels yak-broker-bin and pytest-yak.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheel")
    arguments = parser.parse_args(argv)
    version = project_version()
    try:
        tag = platform_tag(sys.platform, platform.machine(), platform.libc_ver()[1], platform.mac_ver()[0])
        wheels = (bin_wheel(version, FOLDER, tag), pytest_wheel(version))
    except (FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for wheel in wheels:
        path = wheel.write(arguments.out)
        print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
