"""Build the Debian package: the executable, the systemd unit, man pages and completions.

    python packaging/deb.py [--out build/deb]

It needs dist/yak of `packaging/build.py` and Debian's dpkg-deb, and is for the machine's architecture and its C library
or a newer one.
"""

import argparse
import gzip
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import manual

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "dist" / "yak"
PACKAGING = ROOT / "packaging"
NAME = "yak-broker"
_CONTROL = """Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: The YAK authors
Section: net
Priority: optional
Installed-Size: {kilobytes}
Depends: libc6 (>= {libc}), passwd | systemd
Recommends: redis-server | valkey-server
Description: replicated, Kafka-compatible log broker
 YAK is a log broker that Kafka's clients can use, with its commands and its
 terminal UI. The package has its own Python. Its brokers are the services
 yak@1, yak@2 and so on; none is started by the installation.
"""


def stage(tree: Path, folder: Path) -> None:
    """Lay out the package's files below `tree`, without DEBIAN/."""
    shutil.copytree(folder, tree / "usr" / "lib" / "yak", symlinks=True)
    (tree / "usr" / "bin").mkdir(parents=True)
    (tree / "usr" / "bin" / "yak").symlink_to("../lib/yak/yak")
    for name, text in manual.files().items():
        path = tree / "usr" / "share" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if "/man/" in f"/{name}":
            Path(f"{path}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            path.write_text(text)
    copies = {
        PACKAGING / "systemd" / "yak@.service": "lib/systemd/system/yak@.service",
        PACKAGING / "systemd" / "yak.conf": "usr/lib/sysusers.d/yak.conf",
        PACKAGING / "debian" / "yak.env": "etc/yak/yak.env",
        PACKAGING / "debian" / "broker.properties": "etc/yak/broker.properties",
        ROOT / "LICENSE": f"usr/share/doc/{NAME}/copyright",
    }
    for source, name in copies.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)


def add_control(tree: Path, version: str, architecture: str, libc: str) -> None:
    """Write DEBIAN/: what the package is, its conffiles, and the scripts of installation and removal."""
    control = tree / "DEBIAN"
    control.mkdir()
    kilobytes = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    version = re.sub(r"(?=a|b|rc)", "~", version)  # 1.0.0~rc1 is older than 1.0.0, and 1.0.0rc1 would be newer
    text = _CONTROL.format(name=NAME, version=version, architecture=architecture, kilobytes=kilobytes, libc=libc)
    (control / "control").write_text(text)
    conffiles = sorted(path for path in (tree / "etc").rglob("*") if path.is_file())
    (control / "conffiles").write_text("".join(f"/{path.relative_to(tree)}\n" for path in conffiles))
    for name in ("postinst", "prerm", "postrm"):
        shutil.copyfile(PACKAGING / "debian" / name, control / name)
        (control / name).chmod(0o755)
    for path in tree.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
        elif not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    tree.chmod(0o755)


def main(argv: list[str]) -> int:
    """Build the package; returns the exit code."""
    from yak.version import __version__

    parser = argparse.ArgumentParser(description="Build the Debian package.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "deb")
    out: Path = parser.parse_args(argv).out
    if shutil.which("dpkg-deb") is None:
        print("error: dpkg-deb is not there; it is part of Debian's package dpkg", file=sys.stderr)
        return 1
    if not (FOLDER / "yak").exists():
        print(f"error: {FOLDER / 'yak'} is not there: run packaging/build.py", file=sys.stderr)
        return 1
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="yak-deb-") as folder:
        tree = Path(folder) / NAME
        stage(tree, FOLDER)
        add_control(tree, __version__, architecture.strip(), platform.libc_ver()[1])
        command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "--build", str(tree), str(out)]
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
