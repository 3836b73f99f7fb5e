"""The resource server: who may come, and what may be done with which token."""
