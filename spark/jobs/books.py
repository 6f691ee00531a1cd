"""The manifest of an archive: a folder of Parquet files and, in `_yak`, one small file for each change of it.

    FOLDER/topic=orders/date=2026-11-21/hour=03/v0000000012-00000.parquet
    FOLDER/_yak/0000000012.json     one change: files added, files removed, and its batch
    FOLDER/_yak/0000000050.all.json all committed files, every 50 changes
    FOLDER/_yak/staging/            files being written

A change is committed when its file in `_yak` appears, complete and under a new name. Data files are moved to their
final paths before that, and the next job deletes leftovers of a killed one: so a batch that runs twice is stored once.
Readers of the manifest are always consistent. Other readers (any Parquet reader on FOLDER) are consistent while no job
is in the middle of a change.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yak.errors import UsageError, YakError
from yak.spark.jobs.files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SNAPSHOT_EVERY: Final = 50
BOOKS: Final = "_yak"
_OWNER: Final = "owner.json"
PLACES: Final = ("topic", "date", "hour")
"""The partition columns, which are folders."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A committed file. `ranges` holds first offset, last offset and record count of each partition in it."""

    path: str
    topic: str
    date: str
    hour: str
    size_bytes: int
    ranges: dict[str, tuple[int, int, int]]

    @property
    def rows(self) -> int:
        """Number of records in the file."""
        return sum(count for _, _, count in self.ranges.values())

    @property
    def place(self) -> tuple[str, str, str]:
        """Topic, date and hour of the file."""
        return self.topic, self.date, self.hour


@dataclass(slots=True)
class Books:
    """The manifest after change number `version`. `batches` holds the last committed batch of each query."""

    files: Files
    version: int = 0
    live: dict[str, Entry] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, files: Files) -> "Books":
        """Load the manifest of a folder; it is empty when the folder has none."""
        books = cls(files)
        names = [name for name in files.names(files.at(BOOKS)) if name.endswith(".json") and name[:10].isdigit()]
        snapshots = [name for name in names if name.endswith(".all.json")]
        if snapshots:
            found = json.loads(files.read(files.at(BOOKS, snapshots[-1])))
            books.version, books.batches = found["version"], found["batches"]
            books.live = {each["path"]: _entry(each) for each in found["live"]}
        for name in names:
            if not name.endswith(".all.json") and int(name[:10]) > books.version:
                books._apply(json.loads(files.read(files.at(BOOKS, name))))
        return books

    @property
    def rows(self) -> int:
        """Number of records in the archive."""
        return sum(each.rows for each in self.live.values())

    def is_done(self, query: str, batch: int) -> bool:
        """Whether a batch is committed."""
        return self.batches.get(query, -1) >= batch

    def own(self, query: str) -> None:
        """Make one query the only writer, permanently. Raises UsageError (`spark-checkpoint`) when another query is."""
        path = self.files.at(BOOKS, _OWNER)
        if not self.files.exists(path):
            self.files.write_new(path, json.dumps({"query": query}) + "\n")
        owner = json.loads(self.files.read(path))["query"]
        if owner != query:
            raise UsageError(
                "spark-checkpoint",
                f"{self.files.folder} was archived with another checkpoint",
                why="only that one knows what is in it; going on with this one would store records twice",
                try_=(
                    "the --checkpoint-dir that it was begun with",
                    "another --into, for an archive of its own",
                ),
            )

    def sweep(self) -> int:
        """Delete a killed job's staging folder and uncommitted data files; return the number of deleted data files."""
        self.files.delete(self.files.at(BOOKS, "staging"))
        swept = 0
        for found in self.files.walk(self.files.folder):
            path = self._relative(found.path)
            name = path.rpartition("/")[2]
            is_ours = path.startswith("topic=") and name[:1] == "v" and name[1:11].isdigit()
            if is_ours and path not in self.live:
                self.files.delete(found.path)
                swept += 1
        return swept

    def stage(self) -> str:
        """An empty staging folder for the next change."""
        path = self.files.at(BOOKS, "staging", f"v{self.version + 1:010d}")
        self.files.delete(path)
        return path

    def add(self, spark: "SparkSession", *, query: str, batch: int | None, removed: Iterable[str] = ()) -> int:
        """Commit the staged files and replace the files in `removed`; return the number of staged records.

        Raises YakError (`spark-archive`) when the removed files hold another number of records, or another job
        committed first.
        """
        stage = self.files.at(BOOKS, "staging", f"v{self.version + 1:010d}")
        entries = self._move_in(spark, stage)
        gone = list(removed)
        rows = sum(each.rows for each in entries)
        if gone and rows != sum(self.live[path].rows for path in gone):
            raise YakError("spark-archive", f"compacting {len(gone)} files changed the number of records", why=stage)
        change = {
            "version": self.version + 1,
            "query": query,
            "batch": batch,
            "add": [asdict(each) for each in entries],
            "remove": gone,
        }
        path = self.files.at(BOOKS, f"{self.version + 1:010d}.json")
        if not self.files.write_new(path, json.dumps(change) + "\n"):
            raise YakError(
                "spark-archive",
                f"another job writes to {self.files.folder}",
                why=f"{path} is there already",
                try_=("yak spark status", "yak spark stop ID"),
            )
        self._apply(change)
        self.files.delete(stage)
        for path in gone:
            self.files.delete(self.files.at(path))
        if self.version % SNAPSHOT_EVERY == 0:
            self._snapshot()
        return rows

    def read(self, spark: "SparkSession", paths: Iterable[str] | None = None) -> "DataFrame":
        """The records of these files, by default of all committed files."""
        chosen = [self.files.at(path) for path in (self.live if paths is None else paths)]
        frame: DataFrame = _reader(spark).option("basePath", self.files.folder).schema(SCHEMA).parquet(*chosen)
        return frame

    def _move_in(self, spark: "SparkSession", stage: str) -> list[Entry]:
        staged = sorted((each for each in self.files.walk(stage) if each.path.endswith(".parquet")), key=_path_of)
        ranges = _ranges(spark, stage) if staged else {}
        entries = []
        for number, each in enumerate(staged):
            inner = each.path.partition(f"/v{self.version + 1:010d}/")[2]
            folder = inner.rpartition("/")[0]
            path = f"{folder}/v{self.version + 1:010d}-{number:05d}.parquet"
            parts = dict(part.split("=", 1) for part in folder.split("/"))
            found = ranges[inner]
            self.files.move(each.path, self.files.at(path))
            entries.append(Entry(path, parts["topic"], parts["date"], parts["hour"], each.size_bytes, found))
        return entries

    def _apply(self, change: dict[str, Any]) -> None:
        self.version = change["version"]
        for path in change["remove"]:
            del self.live[path]
        self.live |= {each["path"]: _entry(each) for each in change["add"]}
        if change["batch"] is not None:
            self.batches[change["query"]] = change["batch"]

    def _snapshot(self) -> None:
        found = {
            "version": self.version,
            "batches": self.batches,
            "live": [asdict(each) for each in self.live.values()],
        }
        self.files.write_new(self.files.at(BOOKS, f"{self.version:010d}.all.json"), json.dumps(found) + "\n")

    def _relative(self, path: str) -> str:
        return path.partition(self.files.folder.partition(":")[2].lstrip("/") + "/")[2]


SCHEMA: Final = (
    "key binary, value binary, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, topic string, date string, hour string"
)


def _entry(found: dict[str, Any]) -> Entry:
    return Entry(**{**found, "ranges": {name: tuple(range_) for name, range_ in found["ranges"].items()}})


def _path_of(found: Any) -> str:
    return str(found.path)


def _reader(spark: "SparkSession") -> Any:
    return spark.read.option("recursiveFileLookup", "false")


def _ranges(spark: "SparkSession", stage: str) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Offset ranges and counts by file and partition, read from the written files.

    The key is folder and file name, because one task uses the same file name for all its hours.
    """
    from pyspark.sql import functions as f

    found = (
        _reader(spark)
        .schema(SCHEMA)
        .parquet(stage)
        .groupBy(*PLACES, f.col("_metadata.file_name").alias("name"), "partition")
        .agg(f.min("offset").alias("first"), f.max("offset").alias("last"), f.count("*").alias("count"))
        .collect()
    )
    ranges: dict[str, dict[str, tuple[int, int, int]]] = {}
    for row in found:
        path = "/".join([*[f"{place}={row[place]}" for place in PLACES], row["name"]])
        ranges.setdefault(path, {})[str(row["partition"])] = (row["first"], row["last"], row["count"])
    return ranges
