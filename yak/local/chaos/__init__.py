"""`yak chaos`: fault injection into real brokers and a real Redis, while real clients record a history.

- `schedule`: the kinds of faults, and the faults of a run, drawn from a seed
- `node`, `cluster`, `proxy`: the processes, their disks and the connections between them
- `nemesis`: injects and repairs faults, and restores an emptied metadata store
- `clients` (`writers`, `transactions`, `readers`, `members`), `recorder`: librdkafka clients and their recorded history
- `liveness`: checks after all faults are repaired
- `report`: the results and their picture; `yak.sim.history_checker` checks the history
- `run`: a whole run
- `abuse`, `attacks`: attacks on a broker, and what they cost a healthy client
"""
