"""The state of the cluster, built from its events. Pure: no clock, no Textual."""
