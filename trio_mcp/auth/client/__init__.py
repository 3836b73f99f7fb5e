"""How a client gets in."""
