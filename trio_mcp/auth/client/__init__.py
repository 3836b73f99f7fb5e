"""How a client logs in."""
