"""The progress of a file upload: the number of leading rows that are all acknowledged or rejected as bad."""

import hashlib
import json
import os
from dataclasses import dataclass

from yak.errors import UsageError, YakError
from yak.private_files import replace_file

HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identifies an input file by the hash of its first bytes; the file may grow at its end."""

    head_bytes: int
    head_sha256: str

    @classmethod
    def of(cls, path: str, head_bytes: int = HEAD_BYTES) -> "Fingerprint":
        """The fingerprint of the present file. Raises OSError."""
        with open(path, "rb") as file:
            head = file.read(head_bytes)
        return cls(len(head), hashlib.sha256(head).hexdigest())


class Checkpoint:
    """The file given to `--resume`, replaced atomically (write, sync, rename)."""

    def __init__(self, path: str, input_path: str, topic: str) -> None:
        self.path = path
        self._input_path = input_path
        self._topic = topic
        self.topic_id: str | None = None
        """The topic's id, for `read` and `write`: a topic that was deleted and created again has none of the rows."""
        self._fingerprint = Fingerprint.of(input_path)
        self._written = -1

    def read(self) -> int:
        """Rows to skip; 0 without a checkpoint.

        Raises UsageError (`resume-mismatch`) for another file or topic, YakError (`resume-unreadable`).
        """
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
            rows, topic, topic_id = int(found["rows"]), str(found["topic"]), found.get("topic_id")
            known = Fingerprint(int(found["head_bytes"]), str(found["head_sha256"]))
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise YakError(
                "resume-unreadable",
                f"{self.path} is not a checkpoint of yak produce",
                why=f"{type(error).__name__}: {error}",
                try_=("name another file; nothing was sent",),
            ) from None
        if topic != self._topic or Fingerprint.of(self._input_path, known.head_bytes) != known:
            what = f"of topic {topic}" if topic != self._topic else "of another file"
            raise UsageError(
                "resume-mismatch",
                f"{self.path} is a checkpoint {what}",
                why=f"it does not belong to {self._input_path} and topic {self._topic}",
                try_=("name another checkpoint, or remove this one to start again",),
            )
        if None not in (topic_id, self.topic_id) and topic_id != self.topic_id:
            raise UsageError(
                "resume-mismatch",
                f"{self.path} is a checkpoint of an earlier topic {topic}",
                why="the topic was deleted and created again: it does not have the rows before the checkpoint",
                try_=("remove the checkpoint to start again", "name another checkpoint"),
            )
        return rows

    def write(self, rows: int) -> None:
        """Store this number of rows; does nothing when it is unchanged."""
        if rows == self._written:
            return
        document = {
            "file": os.path.abspath(self._input_path),
            "topic": self._topic,
            "topic_id": self.topic_id,
            "rows": rows,
            "head_bytes": self._fingerprint.head_bytes,
            "head_sha256": self._fingerprint.head_sha256,
        }
        replace_file(self.path, f"{json.dumps(document)}\n".encode())
        self._written = rows
