"""OpenAPI documents as registries: each operation is a tool, or a resource.

- `document` reads a document, and the files that it refers to.
- `operations` finds its operations, `arguments` what they take, and `schemas` makes JSON Schemas.
- `parameters` and `requests` write arguments into requests, `names` says which names are not for
  them, `responses` reads the answers.
- `security` shows credentials; `service` sends requests, within bounds; `pages` follows pages.
- `build` puts it together.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.compose.openapi.build import openapi as openapi
    from trio_mcp.compose.openapi.operations import Operation as Operation
    from trio_mcp.compose.openapi.pages import Pages as Pages

MODULES: Final = by_name(
    {
        "compose.openapi.build": "openapi",
        "compose.openapi.operations": "Operation",
        "compose.openapi.pages": "Pages",
    }
)

_EXTRAS: Final = {"compose.openapi.build": "openapi", "compose.openapi.pages": "openapi"}
"""By the modules that cannot be imported without it, an extra."""

__all__ = sorted(name for name, module in MODULES.items() if module not in _EXTRAS)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES, extras=_EXTRAS)
