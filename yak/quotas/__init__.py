"""Quotas of clients: which one applies to a client, how much of it is used, and for how long a client must wait.

Other packages call `client_quotas.ClientQuotas`, `entity.encode_entity` and `entity.decode_entity`, and the names in
`quota_types`. This package knows no connection: the broker mutes channels (`yak.broker.throttling`).
"""
