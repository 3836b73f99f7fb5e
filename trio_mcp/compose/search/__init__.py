"""Tool search: a few tools in place of many, by which the others are found and called."""
