"""The simulator of the metadata quorum alone: real `yak.quorum.Quorum` nodes, with everything around them simulated.

`run.py` runs one seed: voters, observers, clients and an operator that changes the voters, under faults (`faults.py`).
`checks.py` has the invariants, which are checked after every event, and `mutants.py` the rules whose absence they detect.
"""
