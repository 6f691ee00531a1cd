"""Build both executables into dist/ with PyInstaller, with their notices beside them.

python packaging/build.py
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import notices

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "dist" / "yak"
ONE_FILE = ROOT / "dist" / "yak-onefile"
NOTICES = "THIRD-PARTY-NOTICES.txt"


def build() -> int:
    """Run PyInstaller on packaging/yak.spec; returns its exit code. Its output is shown only if it fails."""
    work = ROOT / "build" / "pyinstaller"
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    ONE_FILE.unlink(missing_ok=True)
    notices_path = work / NOTICES
    notices_path.write_text(notices.notices())
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    command += ["--distpath", str(ROOT / "dist"), "--workpath", str(work), str(ROOT / "packaging" / "yak.spec")]
    print("building dist/yak/yak and dist/yak-onefile ...", flush=True)
    started = time.monotonic()
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "YAK_NOTICES": str(notices_path), "PYTHONNODEBUGRANGES": "1"},  # lines without columns
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode != 0:
        print(run.stdout, file=sys.stderr)
        return run.returncode
    shutil.copy(notices_path, ROOT / "dist" / NOTICES)
    shutil.copy(ROOT / "LICENSE", ROOT / "dist" / "LICENSE")
    folder_bytes = sum(path.lstat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"  dist/yak/          {folder_bytes / 1e6:6.1f} MB, start it with dist/yak/yak")
    print(f"  dist/yak-onefile   {ONE_FILE.stat().st_size / 1e6:6.1f} MB")
    print(f"  in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(build())
