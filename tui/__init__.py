"""`yak ui`: a cluster on a screen. Everything here runs on Textual's asyncio loop, and blocks nothing of it.

What is asked of the world goes through `yak.tui.source`; what the cluster is now, `yak.tui.state` folds from its events; `rows` turn that
into lines, and are pure; `widgets` and `screens` draw.
"""
