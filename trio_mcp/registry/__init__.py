"""What a server offers."""

from trio_mcp.registry.context import Context
from trio_mcp.registry.registry import Registry, catalogue_of
from trio_mcp.registry.tools import Tool

__all__ = ["Context", "Registry", "Tool", "catalogue_of"]
