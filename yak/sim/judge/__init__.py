"""The judge of histories: what clients did and saw, checked as Jepsen's Kafka workload does it.

Pure: no clock, no network, no dice but those of `made`. The chaos runner (`yak.local.chaos`) and the simulator can both
hand in a history; `yak chaos check FILE` reads one from a file.

- `history`: what clients did, and how it ended as they saw it
- `lines`: a history as lines of JSON
- `logs`: what all clients together know of each partition's log
- `anomalies`: every kind of contradiction, and the invariant it breaks
- `sends`, `reads`, `groups`, `transactions`: the checks
- `verdict`: all of them, and the counts
- `made`, `mutations`: clean histories, and one way to spoil them for each kind: they show that the checks bite
"""
