"""The simulator runs the shipped broker on a simulated clock, disk, network and store, driven from one event queue.

The same seed gives the same run, event for event: `trace` hashes what crosses the broker's border. Faults, clients and
delays are drawn from the seed. Checks run after every event. `yak sim run --seed S` replays one seed.

- `world`: the queue and the clock
- `node`: one broker with its disk; schedules its effects as future events
- `disk`, `store`, `seeded_random`: the simulated ports
- `wire`: requests and responses as frames, through kio
- `clients`: producers and consumers that record a history
- `faults`: the faults and their times
- `checks`: one invariant per file
- `cluster_run`, `quorum.run`: one seed from start to report; `trial` chooses among them
"""

from yak.lean_imports import import_kio

import_kio()
