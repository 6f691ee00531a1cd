"""A replay's progress, in its checkpoint: completed chunks, and the target's end offsets before the current one."""

import json
from typing import Any, Final

from yak.errors import UsageError
from yak.spark.jobs.files import Files

_NAME: Final = "yak-replay.json"


class ReplayState:
    """The newest file of the folder holds the whole state; it is complete before the previous file is deleted."""

    def __init__(self, files: Files, found: dict[str, Any]) -> None:
        self._files, self._found = files, found

    @classmethod
    def load(cls, files: Files, mine: dict[str, Any], ranges: dict[int, tuple[int, int]]) -> "ReplayState":
        """This replay's state, new with these offset ranges, or resumed with the ranges that it was begun with.

        Raises UsageError (`spark-checkpoint`) for another's state.
        """
        listed = {str(partition): list(range_) for partition, range_ in ranges.items()}
        names = files.names(files.folder)
        kept = [name for name in names if name.startswith(_NAME)]
        if not kept:
            if {"offsets", "metadata"} & set(names):
                raise _of_another(files.folder, "a streaming query made it")
            return cls(files, {"of": mine, "ranges": listed, "done": 0, "begun": None, "ends": {}, "step": 0})
        found = json.loads(files.read(files.at(kept[-1])))
        differing = [name for name in mine if mine[name] != found["of"].get(name)]
        if differing:
            said = "; ".join(f"{name.strip('_')} was {found['of'].get(name)} and is {mine[name]}" for name in differing)
            raise _of_another(files.folder, said)
        return cls(files, {"ranges": listed, **found})  # earlier versions stored no ranges

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """First and last offset of each source partition, as they were when the replay began."""
        return {int(partition): (first, last) for partition, (first, last) in self._found["ranges"].items()}

    @property
    def done(self) -> int:
        """Number of chunks that are completely in the target."""
        return int(self._found["done"])

    @property
    def begun(self) -> int | None:
        """The chunk that may be partly in the target."""
        begun: int | None = self._found["begun"]
        return begun

    @property
    def ends(self) -> dict[str, int]:
        """End offsets of the target's partitions before that chunk."""
        return dict(self._found["ends"])

    def begin(self, number: int, ends: dict[str, int]) -> None:
        """Record that a chunk is about to be written."""
        self._save(begun=number, ends=ends)

    def finish(self, number: int) -> None:
        """Record that a chunk is completely written."""
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
