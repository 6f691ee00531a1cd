"""Spark's own Kafka connector from Maven Central: four jars, copied once into a cache folder.

Spark's parent POM names a mirror that not every network reaches, so each jar is named and none is found through a parent.
A repository may not have the connector of this Spark yet: then the newest that is there is used.
"""

import shutil
from pathlib import Path

from versus.kafka_jars import Missing, not_fetched, run_maven

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
JARS = {
    CONNECTOR: "{spark}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "{spark}",
    "org.apache.kafka:kafka-clients": "3.9.1",
    "org.apache.commons:commons-pool2": "2.12.1",
}
"""Each jar and its version."""
OLDER = ("4.2.0", "4.1.1", "4.0.0")
"""Releases of the connector, for a Spark whose own is not there."""
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>yak</groupId><artifactId>bench-spark</artifactId><version>1</version>
  <repositories>
    <repository><id>gcs-maven-central-mirror</id><url>https://repo.maven.apache.org/maven2</url></repository>
  </repositories>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>"""


def connector_jars(cache: Path, spark_version: str) -> list[Path]:
    """The jars, the connector's own first. Raises Missing where Maven cannot be had, Refused where it has not one of them."""
    folder = cache / spark_version
    complete = folder / "complete"
    if not complete.exists():
        if shutil.which("mvn") is None:
            raise Missing("Maven (mvn) is not on PATH: it fetches Spark's Kafka connector from Maven Central")
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(folder, (spark_version, *OLDER))
        complete.touch()
    return sorted(folder.glob("*.jar"), key=lambda path: not path.name.startswith("spark-sql-kafka"))


def _fetch(folder: Path, versions: tuple[str, ...]) -> None:
    said = ""
    for version in versions:
        pom = folder / "pom.xml"
        pom.write_text(POM.format(dependencies="\n".join(_dependency(jar, version) for jar in JARS)))
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder.resolve()}", "-DincludeScope=runtime"]
        done = run_maven("-f", str(pom), *copy)
        if not done.returncode:
            return
        said = done.stdout + done.stderr
    raise not_fetched(f"{CONNECTOR} of {', '.join(versions)}", said)


def _dependency(jar: str, spark_version: str) -> str:
    group, artifact = jar.split(":")
    return DEPENDENCY.format(group=group, artifact=artifact, version=JARS[jar].format(spark=spark_version))
