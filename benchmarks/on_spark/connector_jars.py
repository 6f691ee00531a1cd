"""Spark's own Kafka connector from Maven Central: four jars, copied once into a cache folder.

They are requested one by one: Spark's parent POM names a mirror that not every network reaches, and a repository may have
the connector of this Spark and not yet all that belongs to it. Then the newest that is there is taken, and named.
"""

import shutil
import subprocess
from pathlib import Path

from versus.kafka_jars import Missing, not_fetched

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
WANTED = {
    CONNECTOR: ("{spark}", "4.2.0", "4.1.1", "4.0.0"),
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": ("{spark}", "4.2.0", "4.1.1", "4.0.0"),
    "org.apache.kafka:kafka-clients": ("3.9.1", "3.9.0"),
    "org.apache.commons:commons-pool2": ("2.12.1", "2.12.0"),
}
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>yak</groupId><artifactId>bench-spark</artifactId><version>1</version>
  <repositories>
    <repository><id>gcs-maven-central-mirror</id><url>https://repo.maven.apache.org/maven2</url></repository>
  </repositories>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
    <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
  </dependency></dependencies>
</project>
"""


def connector_jars(cache: Path, spark_version: str) -> list[Path]:
    """The jars, the connector's own first. Raises Missing where Maven cannot be had, Refused where it has not one of them."""
    folder = cache / spark_version
    complete = folder / "complete"
    if not complete.exists():
        if shutil.which("mvn") is None:
            raise Missing("Maven (mvn) is not on PATH: it fetches Spark's Kafka connector from Maven Central")
        folder.mkdir(parents=True, exist_ok=True)
        for name, versions in WANTED.items():
            _fetch(folder, name, [version.format(spark=spark_version) for version in versions])
        complete.touch()
    return sorted(folder.glob("*.jar"), key=lambda path: not path.name.startswith("spark-sql-kafka"))


def _fetch(folder: Path, name: str, versions: list[str]) -> None:
    group, artifact = name.split(":")
    said = ""
    for version in versions:
        pom = folder / "pom.xml"
        pom.write_text(POM.format(group=group, artifact=artifact, version=version))
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder.resolve()}", "-DincludeScope=runtime"]
        done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], capture_output=True, text=True, check=False)
        if not done.returncode:
            return
        said = done.stdout + done.stderr
    raise not_fetched(f"{name} of {', '.join(versions)}", said)
