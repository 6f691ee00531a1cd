"""Who a client is and what protects its connection: TLS contexts, certificates, principals."""
