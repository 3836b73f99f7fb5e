"""OAuth: documents, tokens and proofs; the resource server's side, and the client's flows."""
