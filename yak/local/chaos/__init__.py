"""`yak chaos`: fault injection into real brokers and a real Redis, while real clients record a history.

- `faults`: the kinds of faults; `schedule`: the faults of a run, drawn from a seed
- `node`, `cluster`, `small_disk`, `proxy`: the processes, their disks and the connections between them
- `nemesis`: injects and repairs faults; `operator`: restores an emptied metadata store
- `clients` (`writers`, `transactions`, `readers`, `members`), `recorder`, `content`: librdkafka clients and their recorded history
- `settling`, `replicas`: checks after all faults are repaired
- `report`, `timeline`: the results; `yak.sim.history_checker` checks the history
- `run`: a whole run
"""
