"""`keyring`: tokens in the keyring of the system."""

from trio_mcp.auth import KeyringStore

KeyringStore()
