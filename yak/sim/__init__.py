"""The simulator: the shipped broker on a simulated clock, disk, network and store, driven from one queue.

The same seed gives the same run, event for event: `trace` hashes what crosses the broker's border. Faults, clients and
delays are drawn from the seed; checks run after every event. `yak sim run --seed S` replays one.

- `world`: the queue and the clock
- `node`: one broker with its disk; carries out effects as events to come
- `disk`, `store`, `dice`: the seams, simulated
- `wire`: requests and answers as frames, through kio
- `clients`: producers and consumers that keep books
- `faults`: what goes wrong, and when
- `checks`: one invariant a file
- `run`: one seed from start to verdict
"""
