"""Extensions of the protocol. Each folder uses the public names of `trio_mcp` only."""
