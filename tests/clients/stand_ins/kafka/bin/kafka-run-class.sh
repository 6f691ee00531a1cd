#!/bin/sh
# As Kafka's: run a class of its jars, which are in KAFKA_JARS.
exec java -Xmx256M -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$KAFKA_JARS/*" "$@"
