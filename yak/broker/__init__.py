"""The pure broker: `Broker.step(event, now_ms)` changes state, appends through the disk seam, and returns effects."""
