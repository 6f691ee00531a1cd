"""What people and scrapers are shown of a broker: plain values, read from it between turns; nothing here changes it."""
