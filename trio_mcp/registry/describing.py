"""What tools, resources and prompts are registered with, whichever of them it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from trio_mcp.registry.checks import check_timeout, icons_of, json_of, scopes_of
from trio_mcp.registry.handlers import NO_EXTENSIONS
from trio_mcp.schema import FunctionSchema
from trio_mcp.schema.signatures import with_defaults
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.tags import with_tags

if TYPE_CHECKING:
    from trio_mcp.layers.injecting import Injection
    from trio_mcp.registry.kept_state import StateScope


P = ParamSpec("P")
T = TypeVar("T")


def check_names(options: Mapping[str, Any], known: Any, kind: str = "tool option") -> None:
    """Raise `TypeError` for an option that has no annotation, as a `TypedDict` or a function has.

    Args:
        options: Those that were given.
        known: What has the annotations.
        kind: Where to look in `EQUIVALENTS` for what to write instead; the message says it.
    """
    for name in options:
        if name not in known.__annotations__:
            from trio_mcp.registry.equivalents import advice
            from trio_mcp.wire.closest import did_you_mean

            meant = advice(kind, name) or did_you_mean(name, known.__annotations__)
            raise TypeError(f"unexpected keyword argument {name!r}{meant}")


def advising(kind: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that an unknown option is refused as by `check_names`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            check_names(options, function, kind)
            return function(*args, **options)

        return call

    return decorate


def shown_fields(described: FunctionSchema, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry's description, or raise `SchemaError`."""
    text = options.get("description")
    return {
        "title": options.get("title"),
        "description": described.description if text is None else text,
        "icons": icons_of(options.get("icons")),
        "meta": _meta(options),
    }


def _meta(options: Mapping[str, Any]) -> dict[str, Json] | None:
    meta = json_of("meta", options.get("meta")) or None
    if options.get("tags") is None:  # as nearly always
        return meta
    from trio_mcp.registry.selection import tags_of

    return with_tags(meta, tags_of(options["tags"]))


def handler_fields(
    function: Callable[..., Any], described: FunctionSchema, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of an entry, apart from its description, or raise `SchemaError`."""
    check_timeout(options.get("timeout"))
    injection = None
    if described.supplied:
        from trio_mcp.registry.dependencies import injection_of  # few functions have any

        injection = injection_of(described.name, described.supplied)
    return {
        "function": with_defaults(function, described.made),
        "timeout": options.get("timeout"),
        "context_parameter": described.context_parameter,
        "injection": injection,
        "scopes": scopes_of(options.get("scopes", ())),
        "state": _state_of(options.get("state"), described, injection),
        "extensions": options.get("extensions", NO_EXTENSIONS),
    }


def _state_of(
    scope: Any, described: FunctionSchema, injection: Injection | None
) -> StateScope | None:
    if scope is None:
        return None
    from trio_mcp.registry.kept_state import check_scope  # few keep any

    steps = () if injection is None else injection.steps
    contexts = (described.context_parameter, *(step.context_parameter for step in steps))
    is_read = any(parameter is not None for parameter in contexts)
    return check_scope(scope, described, is_read)
