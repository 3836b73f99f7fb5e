"""How bytes move between a client and a server: one module per way."""
