"""The broker's HTTP interface: health, data as JSON, metadata service, administration, events and metrics.

    http_server    listening sockets, connection limits, Hypercorn's Trio server (loaded at the first connection)
    app            routes a request: guard, handler, errors as JSON
    routes         one file for each group of routes; `routes.ROUTES` is the table of all of them
    route          a route: method, path, handler, and its OpenAPI description
    guard          access rules: Host, Origin, token, administration from this machine only
    host_header    whether a Host header names this machine
    bodies         JSON bodies within limits
    problems       error answers: slug, message, hint
    broker_client  sends the Kafka requests of handlers to this broker or to another one
    context        the objects that every handler receives

Until the first connection only the listening sockets exist: an unused HTTP interface costs nothing.
"""
