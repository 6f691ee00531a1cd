#!/bin/sh
exec "${0%/*}/kafka-run-class.sh" org.apache.kafka.tools.ConfigCommand "$@"
