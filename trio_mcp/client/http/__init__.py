"""A client over Streamable HTTP."""

from trio_mcp.client.http.options import HttpOptions

__all__ = ["HttpOptions"]
