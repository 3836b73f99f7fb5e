"""Extensions of the protocol: their identifiers, and what a side declares of them (SEP-2133).

Both sides declare settings under `capabilities.extensions`, by the identifier of each extension. A
side that does not name an extension does not have it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from trio_mcp.wire.errors import MISSING_CLIENT_CAPABILITY, McpError
from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.methods import METHODS, Method
from trio_mcp.wire.revisions import SINCE

EXTENSIONS: Final = "extensions"
"""The capability that holds the settings of all extensions."""

TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension that has a short way in, `@registry.tool(task=True)`."""

Kind = Literal["notification", "result type", "subscription"]
"""What an extension may add, beside methods."""

_OWN: Final[Mapping[Kind, frozenset[str]]] = {
    "notification": frozenset(
        f"notifications/{name}"
        for name in (
            *("initialized", "cancelled", "progress", "message"),
            *(f"{kind}/list_changed" for kind in ("tools", "resources", "prompts", "roots")),
            *("resources/updated", "subscriptions/acknowledged", "elicitation/complete"),
        )
    ),
    "result type": frozenset({"complete", "input_required"}),
    "subscription": frozenset(
        {"toolsListChanged", "resourcesListChanged", "promptsListChanged", "resourceSubscriptions"}
    ),
}
"""What the protocol itself has; of subscriptions, the filter keys of `subscriptions/listen`."""

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_IDENTIFIER: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/{_NAME}")


def check_identifier(identifier: Any) -> str:
    """Return the identifier of an extension: a key of `_meta` with a prefix.

    Raises:
        ValueError: It is not one.

    Example:
        >>> check_identifier("com.example/audit")
        'com.example/audit'
    """
    if isinstance(identifier, str) and _IDENTIFIER.fullmatch(identifier):
        return identifier
    raise ValueError(
        f"an extension cannot be called {identifier!r:.100}: it needs a prefix (a domain of yours, "
        'reversed) and a name, such as "com.example/audit"'
    )


def declared_settings(capabilities: Mapping[str, Json], identifier: str) -> dict[str, Json] | None:
    """Return what a side declares of an extension; `None` if it does not have it."""
    declared = capabilities.get(EXTENSIONS)
    settings = declared.get(identifier) if isinstance(declared, dict) else None
    return settings if isinstance(settings, dict) else None


def shared(ours: Collection[str], capabilities: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    """Return those of ours that the other side declares, with what it declares of them."""
    theirs = {name: declared_settings(capabilities, name) for name in ours}
    return {name: settings for name, settings in theirs.items() if settings is not None}


def missing(capabilities: Mapping[str, Json], identifier: str) -> McpError:
    """Make the error for a client that has not declared the extension that a request needs."""
    message = f"Missing required client capability: extension {identifier}"
    declared = capabilities.get(EXTENSIONS, {})
    got = declared.get(identifier, {}) if isinstance(declared, dict) else declared
    if not isinstance(got, dict):
        what = "extensions" if got is declared else "its settings"
        message += f" ({what} must be an object, not {json_type(got)})"
    data: dict[str, Json] = {"requiredCapabilities": {EXTENSIONS: {identifier: {}}}}
    return McpError(MISSING_CLIENT_CAPABILITY, message, data)


# -- what an extension may add ----------------------------------------------------------------


def check_method(method: Method, methods: Mapping[str, Method] = METHODS) -> None:
    """Refuse a method that an extension cannot add to these, with a `ValueError`."""
    if not isinstance(method, Method):
        raise ValueError(f"a method must be described by Method(name=...), not {method!r:.60}")
    name = method.name
    if not isinstance(name, str) or not name or name.startswith("notifications/"):
        raise ValueError(f"a method cannot be called {name!r:.100}")
    if name in methods:
        whose = "the protocol" if name in METHODS else "another extension"
        raise ValueError(f"{whose} has a method {name!r} already")
    if method.sender != "client":
        raise ValueError(f"method {name!r}: an extension adds methods that clients send")
    for revision in (method.since, method.until):
        if revision is not None and revision not in SINCE:
            raise ValueError(f"method {name!r}: there is no revision {revision!r}")


def check_name(kind: Kind, name: Any) -> None:
    """Refuse a name that an extension cannot have for something new, with a `ValueError`."""
    start = "notifications/" if kind == "notification" else ""
    if not isinstance(name, str) or not name or not name.startswith(start):
        hint = f': take "{start}..."' if start else ""
        raise ValueError(f"a {kind} cannot be called {name!r:.100}{hint}")
    if name in _OWN[kind]:
        raise ValueError(f"the protocol has a {kind} {name!r} already")
