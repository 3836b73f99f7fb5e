"""What several instances of a server tell each other, through a store that they share."""
