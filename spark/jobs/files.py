"""Files on any storage of Spark (a disk, HDFS, an object store), through the Hadoop file system of Spark's JVM.

Paths are strings, as in Spark's own options. A new file appears under its name only when it is complete.
"""

from typing import TYPE_CHECKING, Any

from yak.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """The file system of one folder."""

    def __init__(self, spark: "SparkSession", folder: str) -> None:
        session: Any = spark
        jvm = getattr(session, "_jvm", None)
        if jvm is None:
            raise UsageError(
                "spark-connect",
                "this job needs a Spark of its own, not one behind Spark Connect",
                why="it checks its checkpoint through the driver's file system",
                try_=("--master local[*]", "--master spark://HOST:7077"),
            )
        self._jvm = jvm
        self._file_system = jvm.org.apache.hadoop.fs.Path(folder).getFileSystem(
            session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - PySpark has no public way
        )
        self.folder = str(self._file_system.makeQualified(self._path(folder)).toString()).rstrip("/")

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def at(self, *names: str) -> str:
        """A path in the folder."""
        return "/".join((self.folder, *names))

    def exists(self, path: str) -> bool:
        return bool(self._file_system.exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder; empty when the folder does not exist."""
        if not self.exists(path):
            return []
        return sorted(str(each.getPath().getName()) for each in self._file_system.listStatus(self._path(path)))

    def read(self, path: str) -> str:
        """The content of a small text file."""
        stream = self._file_system.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write_new(self, path: str, text: str) -> bool:
        """Create a text file atomically. If the name exists, return False and change nothing."""
        from py4j.protocol import Py4JJavaError

        if self.exists(path):
            return False
        parent, _, name = path.rpartition("/")
        draft = f"{parent}/.{name}.{self._jvm.java.util.UUID.randomUUID().toString()}"
        stream = self._file_system.create(self._path(draft), True)
        try:
            stream.write(text.encode())
            stream.hsync()
        finally:
            stream.close()
        try:
            self._rename_new(draft, path)
        except Py4JJavaError:
            self._file_system.delete(self._path(draft), False)
            if self.exists(path):
                return False
            raise
        return True

    def _rename_new(self, path: str, to: str) -> None:
        """Rename with FileContext, which refuses an existing target; FileSystem does not define what it does then."""
        from pyspark import SparkContext

        hadoop = self._jvm.org.apache.hadoop.fs
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - for an empty Java array
        context = hadoop.FileContext.getFileContext(self._file_system.getUri())
        context.rename(self._path(path), self._path(to), gateway.new_array(hadoop.Options.Rename, 0))

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its content; does nothing when the path does not exist."""
        self._file_system.delete(self._path(path), True)
