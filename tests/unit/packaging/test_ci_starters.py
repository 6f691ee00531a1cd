"""The GitHub action and the dev container feature: their options, and the commands that they run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from yak.version import __version__

PACKAGING = Path(__file__).resolve().parents[3] / "packaging"
ACTION = yaml.safe_load((PACKAGING / "github-action/action.yml").read_text())
FEATURE = json.loads((PACKAGING / "devcontainer/devcontainer-feature.json").read_text())
STATUS = {"bootstrap": "127.0.0.1:1,127.0.0.1:2", "brokers": [{"http_address": "http://127.0.0.1:3"}]}


@pytest.fixture
def fake_yak(tmp_path: Path) -> Path:
    """A `yak` that writes its words to a file, a line for each, and prints a status."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "yak"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{tmp_path}/words'\necho '{json.dumps(STATUS)}'\n")
    program.chmod(0o755)
    return program


def run_start(folder: Path, **variables: str) -> tuple[list[str], dict[str, str]]:
    """Run the action's start step; the words of its `yak up`, and its outputs."""
    (step,) = (each for each in ACTION["runs"]["steps"] if each.get("id") == "start")
    defaults = {
        name: ACTION["inputs"][re.sub(r"\$\{\{ inputs\.(.*) \}\}", r"\1", expression)]["default"]
        for name, expression in step["env"].items()
    }
    output = folder / "output"
    environment = {
        **defaults,
        **variables,
        "PATH": f"{folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RUNNER_TEMP": "/t",
        "GITHUB_OUTPUT": str(output),
    }
    # GitHub's own way to run a bash step
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    words = (folder / "words").read_text().splitlines()
    return words[: words.index("up", 1)], dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_action_is_complete_and_no_script_has_an_expression():
    assert ACTION["runs"]["using"] == "composite"
    assert all(set(each) == {"description", "default"} for each in ACTION["inputs"].values())
    used = re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"]))
    assert sorted(used) == sorted(ACTION["inputs"])
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        # An expression in a script would let an input run as shell.
        assert "${{" not in step["run"]
    for name, output in ACTION["outputs"].items():
        assert output["value"] == "${{ steps.start.outputs." + name + " }}"


def test_action_starts_the_cluster_and_gives_its_addresses(fake_yak):
    words, outputs = run_start(fake_yak.parents[1])
    assert words == ["up", "-d", "--data-dir", "/t/yak-data", "--brokers", "1", "--port", "9092", "--http-port", "8080"]
    assert outputs == {"bootstrap-servers": "127.0.0.1:1,127.0.0.1:2", "http": "http://127.0.0.1:3"}


def test_action_passes_release_and_configs_on_as_they_are(fake_yak):
    given = {"AS_KAFKA": "2.8", "CONFIGS": "num.partitions=6\n\nsuper.users=User:a b;$(touch x)\n", "BROKERS": "3"}
    words, _ = run_start(fake_yak.parents[1], **given)
    assert words[-6:] == ["--as-kafka", "2.8", "-c", "num.partitions=6", "-c", "super.users=User:a b;$(touch x)"]


def test_feature_has_yaks_version_and_options_that_the_script_reads():
    assert FEATURE["id"] == "yak"
    assert FEATURE["version"] == __version__
    script = (PACKAGING / "devcontainer/install.sh").read_text()
    assert set(re.findall(r"\$\{([A-Z]+):[-=]", script)) - {"DESTDIR", "PYTHON"} == {
        name.upper() for name in FEATURE["options"]
    }
    assert FEATURE["postStartCommand"] in script.replace('"$root', "").replace('"', "")


def run_install(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "DESTDIR": str(folder / "root"), **variables}
    command = ["sh", str(PACKAGING / "devcontainer/install.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_feature_installs_a_start_command_with_its_options(tmp_path, fake_yak):
    package = tmp_path / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text("[project]\nname = 'nothing'\nversion = '1'\n")
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$2" = venv ] || exit 0\nmkdir -p "$3/bin"\n'
        f'printf "#!/bin/sh\\necho \\$@ > {tmp_path}/pip\\n" > "$3/bin/pip"\nchmod +x "$3/bin/pip"\n'
    )
    python.chmod(0o755)
    given = {"PYTHON": str(python), "PACKAGE": str(package), "BROKERS": "3", "ASKAFKA": "2.8"}
    assert run_install(tmp_path, **given).stderr == ""
    assert (tmp_path / "pip").read_text().split()[-1] == str(package)
    start = tmp_path / "root/usr/local/bin/yak-start"
    subprocess.run([start], env={"PATH": f"{fake_yak.parent}:/usr/bin:/bin", "HOME": "/h"}, check=True)
    wanted = "up -d --brokers 3 --as-kafka 2.8 --port 9092 --http-port 8080 --data-dir /h/.yak-data"
    assert (tmp_path / "words").read_text().split() == wanted.split()


@pytest.mark.parametrize(
    ("variables", "slug"),
    [({"PYTHON": "no-such-python"}, "no-python"), ({"PYTHON": sys.executable, "BROKERS": "1; id"}, "bad-option")],
)
def test_feature_refuses_what_it_cannot_use_before_it_writes(tmp_path, variables, slug):
    run = run_install(tmp_path, **variables)
    assert run.returncode == 1
    assert run.stderr.startswith(f"error[{slug}]: ")
    assert not (tmp_path / "root").exists()
