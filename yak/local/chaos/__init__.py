"""`yak chaos`: real brokers and a real Redis, broken on purpose while real clients write down what they see.

- `faults`: what can go wrong; `schedule`: what goes wrong when, from a seed
- `node`, `cluster`, `small_disk`, `proxy`: the processes, and what stands between them
- `nemesis`: breaks and mends them; `operator`: brings back a metadata store that was emptied
- `clients` (`writers`, `readers`, `members`), `recorder`, `content`: clients through librdkafka, and the history that they keep
- `settling`, `replicas`: what must be so once all is mended
- `report`, `timeline`: what was found; the judge of the history is `yak.sim.judge`
- `run`: all of it in order
"""
