"""HTTP beside the Kafka port: health, data as JSON, the metadata service, administration, events and metrics.

    serving     the listening sockets, bounds on connections, Hypercorn's Trio server on them; loaded at the first connection
    app         from a request to its route: guard, handler, errors as JSON
    routes      one file for each group of routes; `routes.ROUTES` is the one table
    route       what a route is: method, path, handler, and what OpenAPI says of it
    guard       who may ask: Host, Origin, the token, the administration from this machine only
    bodies      JSON bodies within bounds
    problems    errors for people: slug, message, hint
    door        how a handler asks the core, or another broker: Kafka's own requests
    context     what a handler is given

Only `serving`'s sockets exist before somebody connects: a broker that nobody asks over HTTP pays nothing for it.
"""
