"""The extensions of a registry: what each of them adds, and that no two of them clash."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, get_args

from attrs import frozen

from trio_mcp.registry.checks import check_json, check_timeout, json_of, scopes_of
from trio_mcp.registry.extension import ExtensionMethod, ExtensionSubscription
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.lifespan import Opened
from trio_mcp.registry.middleware import METHOD_OF
from trio_mcp.schema import SchemaError
from trio_mcp.wire.extensions import (
    check_filter_key,
    check_identifier,
    check_method,
    check_notification,
    check_result_type,
)
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import METHODS, Method
from trio_mcp.wire.revisions import Era, Revision
from trio_mcp.wire.safe_repr import safe_repr

Offered = Literal["tool", "resource", "resource template", "prompt"]

WRAPPABLE: Final = tuple(METHOD_OF.values())
"""Methods that run a function of the author's, which an extension may run something around."""


class Extension(Protocol):
    """What a registry has to know of an extension (see `ServerExtension`, which documents it)."""

    # Read only, so that a class may have a tuple where any collection will do.

    @property
    def identifier(self) -> str:
        """Its name."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What to declare of it."""

    @property
    def era(self) -> Era | None:
        """The only era in which there is such a thing."""

    @property
    def wraps(self) -> Collection[str]:
        """The methods that it runs something around."""

    @property
    def mountable(self) -> bool:
        """Whether one in the registry that is served does for those of its parts."""

    @property
    def sends(self) -> Collection[str]:
        """The notifications that it sends while a request is answered."""

    @property
    def result_types(self) -> Collection[str]:
        """What it may answer with."""

    def methods(self) -> Sequence[ExtensionMethod]:
        """The methods that it adds."""

    def notifications(self) -> Mapping[str, Any]:
        """By method, who takes note of a client's notification."""

    def subscriptions(self) -> Sequence[ExtensionSubscription]:
        """What clients can ask to be told of."""

    def check_option(self, kind: Offered, name: str, value: Any) -> Any:
        """Check what something is registered with for the extension."""

    def meta_of(self, kind: Offered, name: str, option: Any) -> Mapping[str, Json]:
        """Say what stands in the `_meta` of its description."""

    def added_to(self, registry: Any) -> None:
        """Register what it brings."""

    def opened(
        self, registry: Any, opened: Opened, limits: Limits
    ) -> AbstractAsyncContextManager[object]:
        """Open the extension's lifespan."""


@frozen(eq=False, kw_only=True)
class MethodHandler(Handler):
    """A method of an extension, as a function that answers requests."""

    extension: Extension
    row: Method
    open_to_all: bool


@frozen(eq=False)
class Added:
    """An extension, and the settings to declare."""

    extension: Extension
    settings: dict[str, Json]

    def is_in(self, revision: Revision) -> bool:
        """Whether there is such a thing in a revision."""
        return self.extension.era in (None, "modern" if revision.modern else "legacy")


class Extensions:
    """The extensions of one registry."""

    def __init__(self) -> None:
        self._added: dict[str, Added] = {}
        self.rows: Mapping[str, Method] = METHODS
        """All methods that there are: those of the protocol, and those of the extensions."""
        self.methods: Final[dict[str, MethodHandler]] = {}
        self.notifications: Final[dict[str, tuple[Added, Any]]] = {}
        """Who takes note of a client's notification."""
        self.sent: Final[dict[str, Extension]] = {}
        """The notifications that go to clients, and whose they are."""
        self.subscriptions: Final[dict[str, tuple[Added, ExtensionSubscription]]] = {}
        """By their keys in the filter."""
        self._result_types: set[str] = set()
        self.wrapping: Final[dict[str, list[Extension]]] = {}
        """By method, who runs something around it, from the outside inwards."""

    def __contains__(self, identifier: str) -> bool:
        """Whether there is an extension of that name."""
        return identifier in self._added

    def __iter__(self) -> Iterator[Extension]:
        """In the order of their registration."""
        return (each.extension for each in self._added.values())

    def find(self, identifier: str) -> Added:
        """Return an extension."""
        return self._added[identifier]

    def add(self, extension: Extension) -> None:
        """Add an extension.

        Raises:
            SchemaError: It clashes with the protocol or with another one, or is not well made.
        """
        if isinstance(extension, type) or not hasattr(extension, "opened"):
            raise SchemaError(f"an extension must be a ServerExtension, not {extension!r:.100}")
        try:
            identifier = check_identifier(extension.identifier)
            if identifier in self._added:
                raise SchemaError("there is an extension of that name already")
            if not (extension.era is None or extension.era in get_args(Era)):
                raise SchemaError(f"era must be 'modern', 'legacy' or None, not {extension.era!r}")
            added = Added(extension, json_of("settings", extension.settings) or {})
            methods = self._methods_of(extension)
            taken = dict(extension.notifications())
            told = list(extension.subscriptions())
            sent = dict.fromkeys((*extension.sends, *(each.notification for each in told)))
            self._check_notifications(taken, sent)
            self._check_keys(told)
            self._check_results(extension)
        except ValueError as error:
            name = getattr(extension, "identifier", extension)
            raise SchemaError(f"Extension {name!r:.100}: {error}") from None
        # From here on nothing fails, so an extension is added whole or not at all.
        self._added[identifier] = added
        self.methods.update(methods)
        self.rows = MappingProxyType({**self.rows, **{n: each.row for n, each in methods.items()}})
        self.notifications.update({name: (added, take) for name, take in taken.items()})
        self.sent.update(dict.fromkeys(sent, extension))
        self.subscriptions.update({each.key: (added, each) for each in told})
        self._result_types.update(extension.result_types)
        for method in extension.wraps:
            self.wrapping.setdefault(method, []).append(extension)

    def _methods_of(self, extension: Extension) -> dict[str, MethodHandler]:
        found: dict[str, MethodHandler] = {}
        for method in extension.methods():
            row = method.row
            check_method(row, {**self.rows, **{name: each.row for name, each in found.items()}})
            check_timeout(method.timeout, f"method {row.name!r}: timeout")
            handler = MethodHandler(
                name=row.name,
                label=f"Method {row.name}",
                function=method.handler,
                timeout=method.timeout,
                scopes=scopes_of(method.scopes),
                extension=extension,
                row=row,
                open_to_all=method.open_to_all,
            )
            if not handler.is_async:
                raise SchemaError(f"method {row.name!r}: its handler must be an async function")
            found[row.name] = handler
        return found

    def _check_notifications(self, taken: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
        for name in (*taken, *sent):
            check_notification(name)
        for name, take in taken.items():
            if not callable(take):
                raise SchemaError(f"{name!r} must go to a function, not to {safe_repr(take)}")
        for name in (*(self.notifications.keys() & taken), *(self.sent.keys() & sent)):
            raise SchemaError(f"another extension has {name!r} already")

    def _check_keys(self, subscriptions: Sequence[ExtensionSubscription]) -> None:
        seen = set(self.subscriptions)
        for each in subscriptions:
            check_filter_key(each.key)
            if each.key in seen:
                raise SchemaError(f"there is a subscription with the key {each.key!r} already")
            seen.add(each.key)

    def _check_results(self, extension: Extension) -> None:
        for name in extension.result_types:
            check_result_type(name)
            if name in self._result_types:
                raise SchemaError(f"another extension has the result type {name!r} already")
        for method in extension.wraps:
            if method not in WRAPPABLE:
                possible = ", ".join(WRAPPABLE)
                raise SchemaError(f"nothing can be run around {method!r:.100}, only {possible}")

    def has_method(self, name: str, revision: Revision) -> bool:
        """Whether there is such a method in a revision."""
        method = self.methods.get(name)
        if method is None:
            return False
        added = self._added[method.extension.identifier]
        return method.row.is_in(revision) and added.is_in(revision)

    # -- what is declared, and with what things are registered -------------------------------

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What to declare to a client."""
        return {
            identifier: added.settings
            for identifier, added in self._added.items()
            if added.is_in(revision)
        }

    def options(
        self, kind: Offered, name: str, given: Any
    ) -> tuple[dict[str, Any], dict[str, Json]]:
        """Check what something is registered with.

        Returns:
            What each extension makes of it, and what stands in the `_meta` of its description.

        Raises:
            SchemaError: An extension refuses it, or is not there.
        """
        if not isinstance(given, Mapping):
            raise SchemaError(f"extensions must be a dict, by identifier, not {safe_repr(given)}")
        kept: dict[str, Any] = {}
        meta: dict[str, Json] = {}
        for identifier, value in given.items():
            if identifier not in self._added:
                raise SchemaError(_no_such(identifier, self._added))
            extension = self._added[identifier].extension
            try:
                kept[identifier] = extension.check_option(kind, name, value)
                shown = dict(extension.meta_of(kind, name, kept[identifier]))
                check_json("_meta", shown)
            except (ValueError, TypeError) as error:
                raise SchemaError(f"extensions[{identifier!r}]: {error}") from None
            meta |= shown
        return kept, meta


def _no_such(identifier: Any, known: Collection[str]) -> str:
    there = f"there are {', '.join(known)}" if known else "there is none"
    return (
        f"the registry has no extension {identifier!r:.100}, {there}; give it to "
        "Registry(extensions=[...]), or add it with add_extension before what needs it"
    )
