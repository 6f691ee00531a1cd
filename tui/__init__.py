"""`yak ui`: a cluster on a screen. Everything runs on Textual's asyncio loop and never blocks it.

`source` sends requests to the cluster and listens to its events; `state` builds the cluster's present state from them;
`rows` turn the state into lines and are pure; `widgets` and `screens` draw.
"""
