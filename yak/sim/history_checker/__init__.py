"""The checker of histories: it checks the operations of clients as Jepsen's Kafka workload does.

Pure: no clock, no network, no random source except that of `random_history`. The chaos runner (`yak.local.chaos`) and the
simulator both use it; `yak chaos check FILE` reads a history from a file.

- `history`: the operations of clients, and their outcomes
- `json_lines`: a history as lines of JSON
- `logs`: each partition's log as all clients together know it
- `anomalies`: every kind of contradiction, and the invariant that it breaks
- `sends`, `reads`, `groups`, `transactions`: the checks
- `cycles`: the dependencies between committed transactions, and their cycles
- `report`: all checks, and the counts
- `random_history`, `corruptions`: clean histories, and one corruption per kind, as a self-test of the checks
"""
