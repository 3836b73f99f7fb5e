"""OAuth: what a server checks, and how a client gets in."""
