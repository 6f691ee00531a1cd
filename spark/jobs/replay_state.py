"""How far a replay is, in its checkpoint: chunks done, and where the target ended when the one under way was begun."""

import json
from typing import Any, Final

from yak.errors import UsageError
from yak.spark.jobs.files import Files

_NAME: Final = "yak-replay.json"


class ReplayState:
    """The newest file of its folder says all; it is written whole before the one before it is deleted."""

    def __init__(self, files: Files, found: dict[str, Any]) -> None:
        self._files, self._found = files, found

    @classmethod
    def load(cls, files: Files, mine: dict[str, Any]) -> "ReplayState":
        """The state of this replay, new or resumed. Raises UsageError (`spark-checkpoint`) for that of another one."""
        names = files.names(files.folder)
        kept = [name for name in names if name.startswith(_NAME)]
        if not kept:
            if {"offsets", "metadata"} & set(names):
                raise _of_another(files.folder, "a streaming query made it")
            return cls(files, {"of": mine, "done": 0, "begun": None, "ends": {}, "step": 0})
        found = json.loads(files.read(files.at(kept[-1])))
        differing = [name for name in mine if mine[name] != found["of"].get(name)]
        if differing:
            said = "; ".join(f"{name.strip('_')} was {found['of'].get(name)} and is {mine[name]}" for name in differing)
            raise _of_another(files.folder, said)
        return cls(files, found)

    @property
    def done(self) -> int:
        """Chunks that are in the target."""
        return int(self._found["done"])

    @property
    def begun(self) -> int | None:
        """The chunk that may be in part."""
        begun: int | None = self._found["begun"]
        return begun

    @property
    def ends(self) -> dict[str, int]:
        """Where the target's partitions ended before it."""
        return dict(self._found["ends"])

    def begin(self, number: int, ends: dict[str, int]) -> None:
        """A chunk is about to be written."""
        self._save(begun=number, ends=ends)

    def finish(self, number: int) -> None:
        """All of it is stored."""
        self._save(done=number + 1, begun=None)

    def _save(self, **changes: Any) -> None:
        self._found |= {**changes, "step": self._found["step"] + 1}
        step = self._found["step"]
        self._files.write_new(self._files.at(f"{_NAME}.{step:010d}"), json.dumps(self._found) + "\n")
        if step > 1:
            self._files.delete(self._files.at(f"{_NAME}.{step - 1:010d}"))


def _of_another(folder: str, why: str) -> UsageError:
    return UsageError(
        "spark-checkpoint",
        f"{folder} is the checkpoint of another query",
        why=why,
        try_=(f"--checkpoint-dir {folder}-2     a folder of its own",),
    )
