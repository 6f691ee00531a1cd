"""Access control lists: which principal may do what (Kafka's StandardAuthorizer; KIP-11, KIP-290, KIP-507).

`yak.acls.bindings` has the ACLs, their names, and their form in the metadata; `yak.acls.filters` selects some of them;
`yak.acls.authorizer` decides. Nothing here knows requests or connections: that is `yak.broker.authorization`.
"""
