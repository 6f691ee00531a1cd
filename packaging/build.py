"""Build both executables into dist/ with PyInstaller, with their notices beside them.

python packaging/build.py [--out DIR]

The wheel of cryptography has an OpenSSL inside, and Python's ssl another one. With Cargo and OpenSSL's headers, cryptography
is built from its source for the latter, which takes 8 MB less; without them the wheel is taken.
"""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import notices

ROOT = Path(__file__).resolve().parent.parent
SMALL = {"CARGO_PROFILE_RELEASE_LTO": "fat", "CARGO_PROFILE_RELEASE_OPT_LEVEL": "s"}
"""Cargo's settings for a small module in Rust."""
NOTICES = "THIRD-PARTY-NOTICES.txt"


def small_cryptography() -> Path | None:
    """A folder with a cryptography that has no OpenSSL of its own; None where it cannot be built, with the reason printed."""
    version = importlib.metadata.version("cryptography")
    folder = ROOT / "build" / f"cryptography-{version}-{sys.implementation.cache_tag}"
    if sys.platform != "linux" or shutil.which("cargo") is None:
        print("  cryptography's own wheel is taken: to build a smaller one needs Linux and Cargo", flush=True)
        return None
    if not folder.exists():
        print(f"  building cryptography {version} ...", flush=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-binary", "cryptography"]
        run = subprocess.run(
            [*command, "--target", f"{folder}.new", f"cryptography=={version}"],
            env={**os.environ, **SMALL},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if run.returncode != 0:
            print(f"  cryptography's own wheel is taken: {run.stdout.strip()[-500:]}", flush=True)
            return None
        Path(f"{folder}.new").rename(folder)
    return folder


def folder_bytes(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def version_s(executable: Path) -> float:
    """The shortest of five runs of `yak --version`."""
    took_s = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([executable, "--version"], check=True, stdout=subprocess.DEVNULL)
        took_s.append(time.perf_counter() - started)
    return min(took_s)


def build(out: Path) -> int:
    """Run PyInstaller on packaging/yak.spec; returns its exit code. Its output is printed only if it fails."""
    work = ROOT / "build" / "pyinstaller"
    folder, one_file = out / "yak", out / "yak-onefile"
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    one_file.unlink(missing_ok=True)
    notices_path = work / NOTICES
    notices_path.write_text(notices.notices())
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    command += ["--distpath", str(out), "--workpath", str(work), str(ROOT / "packaging" / "yak.spec")]
    print(f"building {folder / 'yak'} and {one_file} ...", flush=True)
    started = time.monotonic()
    variables = {"YAK_NOTICES": str(notices_path), "PYTHONNODEBUGRANGES": "1"}  # lines without columns
    if (small := small_cryptography()) is not None:
        variables["PYTHONPATH"] = str(small)
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode != 0:
        print(run.stdout, file=sys.stderr)
        return run.returncode
    shutil.copy(notices_path, out / NOTICES)
    shutil.copy(ROOT / "LICENSE", out / "LICENSE")
    for name, size_bytes, executable in (
        ("yak/", folder_bytes(folder), folder / "yak"),
        ("yak-onefile", one_file.stat().st_size, one_file),
    ):
        print(f"  {name:12} {size_bytes / 1e6:6.1f} MB, --version takes {version_s(executable):.2f} s")
    print(f"  in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build both executables.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    sys.exit(build(parser.parse_args().out.resolve()))
