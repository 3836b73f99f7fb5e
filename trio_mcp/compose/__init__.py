"""Many servers: connected side by side, passed on as registries, gathered into one; and APIs."""
