"""Try the image without a container engine: its root file system, read-only, as its user, in namespaces of its own.

    sudo python tests/release/try_image.py [--base DIR] [--mirror URL]

The base is Debian's bookworm, made by debootstrap in build/debian unless DIR has one. On a copy without what Debian slim
leaves out, the Dockerfile's stage `base` and its last one are carried out: their RUN and COPY lines, with dist/yak of
`packaging/build.py` as the result of the stage `build`. The result is to be smaller than 120 MB. Then its CMD runs with
the variables of testcontainers and with tmpfs only in /dev/shm, and a record is written and read. Needs root, Linux,
debootstrap and unshare.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "packaging" / "docker" / "Dockerfile"
BYTES_MAX = 120_000_000
LEFT_OUT_BY_SLIM = (
    *(f"usr/share/{name}/*" for name in ("doc", "groff", "info", "lintian", "linda", "locale", "man")),
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
)
"""Of what debootstrap makes; Debian's images are made by debuerreotype, whose slim variant leaves these out."""
READY_SECONDS = 60.0
MESSAGE = "hello from a read-only root"
USER = "1000:1000"
VARIABLES = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
}


def instructions(text: str, stage: str) -> Iterator[tuple[str, str]]:
    """The instructions of a stage of the Dockerfile, by what its FROM ends with; each with its arguments on one line."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    named = {lines[0].split()[-1]: lines[1:] for lines in map(str.splitlines, joined.split("\nFROM ")[1:])}
    for line in named[stage]:
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


def build(root: Path) -> dict[str, str]:
    """Carry out the last two stages on Debian's file system; returns the variables that they set."""
    for pattern in LEFT_OUT_BY_SLIM:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")  # as every engine does
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    text = DOCKERFILE.read_text()
    for word, rest in (*instructions(text, "base"), *instructions(text, "scratch")):
        if word == "RUN":
            subprocess.run(["chroot", str(root), "/bin/sh", "-c", rest], check=True, env=environment)
        elif word == "COPY" and "--from=base" not in rest:
            words = shlex.split(rest)
            *sources, target = [each for each in words if not each.startswith("--")]
            for source in sources:
                copy(source, root, target, mode=next((each[8:] for each in words if each.startswith("--chmod=")), ""))
        elif word == "ENV":
            environment |= dict(pair.partition("=")[::2] for pair in shlex.split(rest))
    return environment


def copy(source: str, root: Path, target: str, mode: str) -> None:
    """COPY one file or folder; /src is the build stage's name of the repository."""
    path = ROOT / source.removeprefix("/src/")
    to = root / target.lstrip("/")
    if path.is_dir():
        shutil.copytree(path, to, symlinks=True)
        return
    to = to / path.name if target.endswith("/") else to
    shutil.copy(path, to)
    if mode:
        to.chmod(int(mode, 8))


def command_in(root: Path, *command: str) -> list[str]:
    """A command as the image's user in mount, process and network namespaces; only the data and /dev/shm are writable."""
    script = (
        'set -e; ip link set lo up 2>/dev/null || true; mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; '
        'mount -t tmpfs tmpfs "$0/dev/shm"; mount --bind "$0/var/lib/kafka/data" "$0/var/lib/kafka/data"; '
        'mount -o remount,bind,ro "$0"; exec chroot --userspec=' + USER + ' "$0" "$@"'
    )
    return ["unshare", "-m", "-p", "-n", "-f", "--kill-child", "sh", "-c", script, str(root), *command]


def inside(keeper: int, root: Path, *command: str) -> str:
    """Run a command beside the broker and return its output. Raises RuntimeError."""
    enter = ["nsenter", "-t", str(keeper), "-m", "-p", "-n", "chroot", f"--userspec={USER}", str(root), *command]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin", "HOME": "/dev/shm"}
    done = subprocess.run(enter, env=environment, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def child_of(pid: int) -> int:
    """The process that unshare started: the first one in the namespaces."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.05)
    raise TimeoutError("unshare started nothing")


def try_out(root: Path, environment: dict[str, str]) -> None:
    """Start the image's CMD, wait for the words of testcontainers, and use the broker."""
    command = next(rest for word, rest in instructions(DOCKERFILE.read_text(), "scratch") if word == "CMD")
    argv = command_in(root, *re.findall(r'"([^"]+)"', command))
    with subprocess.Popen(
        argv, env=environment | VARIABLES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as broker:
        keeper = child_of(broker.pid)
        try:
            assert broker.stdout is not None
            started = time.monotonic()
            for line in broker.stdout:
                print(f"  | {line.rstrip()}")
                if "Transitioning from RECOVERY to RUNNING" in line:
                    break
                if time.monotonic() - started > READY_SECONDS:
                    raise TimeoutError("the broker was not ready")
            else:
                raise RuntimeError(f"the broker ended with code {broker.wait()}")
            inside(keeper, root, "/etc/kafka/docker/health")
            inside(keeper, root, "yak", "produce", "-b", "localhost:9092", "-m", MESSAGE)
            read = inside(keeper, root, "yak", "consume", "-b", "localhost:9092", "--from-beginning", "--exit")
            assert MESSAGE in read, read
            os.kill(keeper, signal.SIGTERM)
            code = broker.wait(60)
            assert code == 0, f"the broker stopped with code {code}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)  # the first process of its namespace: all others end with it


def main(argv: list[str]) -> int:
    """Build the root file system and try it; returns the exit code."""
    parser = argparse.ArgumentParser(description="Try the image's root file system in namespaces.")
    parser.add_argument("--base", type=Path, default=ROOT / "build" / "debian")
    parser.add_argument("--mirror", default="")
    given = parser.parse_args(argv)
    missing = [name for name in ("chroot", "unshare", "nsenter", "debootstrap") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        print(f"error: this needs root{' and ' + ', '.join(missing) if missing else ''}", file=sys.stderr)
        return 2
    if not (given.base / "bin").exists():
        mirror = [given.mirror] if given.mirror else []
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(given.base), *mirror], check=True)
    with tempfile.TemporaryDirectory(prefix="yak-image-") as folder:
        root = Path(folder) / "root"
        subprocess.run(["cp", "-a", str(given.base), str(root)], check=True)
        environment = build(root)
        size_bytes = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        print(f"the image has {size_bytes / 1e6:.0f} MB")
        if size_bytes > BYTES_MAX:
            print(f"error: it is to have at most {BYTES_MAX / 1e6:.0f} MB", file=sys.stderr)
            return 1
        try_out(root, environment)
        print("ok: the broker served on a read-only root as user 1000, and stopped in order")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
