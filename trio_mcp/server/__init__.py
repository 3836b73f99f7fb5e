"""How a request is answered."""
