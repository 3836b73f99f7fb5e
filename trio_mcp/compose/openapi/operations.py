"""The operations of a document: which there are, which are meant, and the names of their tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from attrs import field, frozen

from trio_mcp.compose.openapi.document import MOST, Document
from trio_mcp.compose.openapi.texts import free_name, plain_name
from trio_mcp.public import public_in
from trio_mcp.registry.checks import is_text
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.wildcards import fits_pattern

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
READING: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})
REPEATABLE: Final = READING | {"PUT", "DELETE"}
"""The methods of requests that may be sent again (RFC 9110, section 9.2.2)."""
LONGEST_NAME: Final = 128
VARIABLE: Final = re.compile(r"{([^{}]+)}")
"""A variable in a path."""


@public_in("trio_mcp.compose.openapi")
@frozen(kw_only=True, eq=False)
class Operation:
    """An operation of an OpenAPI document, as `only=` and other rules see it.

    Attributes:
        method: Its method, such as `GET`.
        path: Its path, as the document has it, such as `/pets/{petId}`.
        operation_id: Its `operationId`; `None` if it has none.
        tags: Its tags.
        summary: What it does, in a few words.
        deprecated: Whether it should not be used any more.
        details: All that the document says about it.
        shared: What it says about all operations of the path.
    """

    method: str
    path: str
    operation_id: str | None
    tags: tuple[str, ...]
    summary: str
    deprecated: bool
    details: Mapping[str, Json] = field(repr=False)
    shared: Mapping[str, Json] = field(repr=False)

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"{self.method} {self.path}"

    def said(self, key: str) -> Json:
        """What the operation says, or else its path."""
        return self.details.get(key, self.shared.get(key))


Rule = str | Sequence[str] | Callable[[Operation], bool]


def operations_of(document: Document) -> Iterator[Operation]:
    """Yield the operations of a document, in its order."""
    for path, found in (document.root.get("paths") or {}).items():
        shared = document.resolve(found)
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        for method in METHODS:
            if isinstance(shared.get(method), Mapping):
                details = document.resolve(shared[method])
                yield _operation(method.upper(), path, details, shared)


def _operation(
    method: str, path: str, details: Mapping[str, Json], shared: Mapping[str, Json]
) -> Operation:
    identifier, tags = details.get("operationId"), details.get("tags")
    summary = details.get("summary")
    return Operation(
        method=method,
        path=path,
        operation_id=identifier if isinstance(identifier, str) else None,
        tags=tuple(tag for tag in tags[:MOST] if tag and is_text(tag))
        if isinstance(tags, list)
        else (),
        summary=summary if isinstance(summary, str) else "",
        deprecated=details.get("deprecated") is True,
        details=details,
        shared=shared,
    )


# -- choosing --------------------------------------------------------------------------------------


def chosen(
    operations: Sequence[Operation], rule: Rule | None, option: str
) -> frozenset[Operation] | None:
    """Return the operations that a rule means, if there is one; refuse one that means none."""
    if rule is None:
        return None
    if callable(rule):
        return frozenset(operation for operation in operations if rule(operation))
    found: set[Operation] = set()
    for pattern in [rule] if isinstance(rule, str) else rule:
        meant = {operation for operation in operations if matches(pattern, operation)}
        if not meant:
            raise ValueError(
                f"{option}: {pattern!r} means no operation; write an operationId, a path such as "
                "'/pets/*', a method and a path such as 'GET /pets', 'tag:NAME' or 'deprecated'"
            )
        found |= meant
    return frozenset(found)


def matches(pattern: str, operation: Operation) -> bool:
    if pattern == "deprecated":
        return operation.deprecated
    if pattern.startswith("tag:"):
        return any(fits_pattern(tag, pattern[4:]) for tag in operation.tags)
    if pattern.startswith("/"):
        return fits_pattern(operation.path, pattern)
    if pattern.partition(" ")[0].lower() in METHODS and " " in pattern:
        return fits_pattern(operation.label, pattern)
    return operation.operation_id is not None and fits_pattern(operation.operation_id, pattern)


def tool_names(
    operations: Sequence[Operation], rename: Mapping[str, str] | Callable[[Operation], str | None]
) -> Iterator[str]:
    """Name operations: by `rename`, their `operationId`, or else method and path."""
    given: Mapping[str, str] = {}
    if isinstance(rename, Mapping):
        given = rename
        known = {
            name for operation in operations for name in (operation.operation_id, operation.label)
        }
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise ValueError(f"rename: there is no operation {unknown!r}")
    taken: set[str] = set()
    for operation in operations:
        own = rename(operation) if callable(rename) else given.get(operation.label)
        own = own or given.get(operation.operation_id or "")
        # A name that was given must be valid as it is: the registry says so if it is not.
        name = own or plain_name(operation.operation_id or "", LONGEST_NAME)
        name = name or plain_name(operation.label.lower(), LONGEST_NAME)
        name = free_name(name, taken, operation.label, LONGEST_NAME)
        taken.add(name)
        yield name
