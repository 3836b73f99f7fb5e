"""The extensions of a registry: what each of them adds, and that no two of them clash."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Protocol, get_args

from attrs import evolve, frozen

from trio_mcp.registry.checks import check_json, check_timeout, json_of, scopes_of
from trio_mcp.registry.extension import (
    Answer,
    ExtensionMethod,
    ExtensionRequest,
    ExtensionSubscription,
)
from trio_mcp.registry.functions import is_async
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.kinds import CALLED, Offered
from trio_mcp.registry.lifespan import Opened
from trio_mcp.schema import SchemaError
from trio_mcp.wire.extensions import check_identifier, check_method, check_name
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import METHODS, Method
from trio_mcp.wire.revisions import Era, Revision
from trio_mcp.wire.safe_repr import safe_repr

WRAPPABLE: Final = tuple(CALLED)
"""Methods that run a function of the author's, which an extension may run something around."""


class Extension(Protocol):
    """What a registry has to know of an extension (see `ServerExtension`, which documents it)."""

    # Read only, so that a class may have a tuple where any collection will do.

    @property
    def identifier(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Json]: ...

    @property
    def era(self) -> Era | None: ...

    @property
    def wraps(self) -> Collection[str]: ...

    @property
    def mountable(self) -> bool: ...

    @property
    def shares(self) -> bool: ...

    @property
    def sends(self) -> Collection[str]: ...

    @property
    def result_types(self) -> Collection[str]: ...

    def methods(self) -> Sequence[ExtensionMethod]: ...

    def notifications(self) -> Mapping[str, Any]: ...

    def subscriptions(self) -> Sequence[ExtensionSubscription]: ...

    def check_option(self, kind: Offered, name: str, value: Any) -> Any: ...

    def meta_of(self, kind: Offered, name: str, option: Any) -> Mapping[str, Json]: ...

    def added_to(self, registry: Any) -> None: ...

    def opened(
        self, registry: Any, opened: Opened, limits: Limits
    ) -> AbstractAsyncContextManager[object]: ...


@frozen(eq=False, kw_only=True, repr=False)
class MethodHandler(Handler):
    """A method of an extension, as a function that answers requests."""

    kind: ClassVar[Literal["method"]] = "method"
    extension: Extension
    row: Method
    open_to_all: bool

    def to_result(self, value: Any, name: str, revision: Revision) -> dict[str, Json]:
        if not isinstance(value, Mapping):
            raise invalid_result(value, f"method {self.name}")
        return dict(value)


@frozen(eq=False, kw_only=True)
class Added:
    """An extension, and what it adds."""

    extension: Extension
    settings: dict[str, Json]
    """What is declared of it."""
    methods: Mapping[str, MethodHandler]
    notifications: Mapping[str, Any]
    subscriptions: Sequence[ExtensionSubscription]
    owners: Sequence[Any] = ()
    """The mounted catalogues that it came with, if it is not the registry's own."""

    @property
    def owner(self) -> Any:
        """The catalogue whose state it works with; `None` for that of the registry."""
        return next(iter(self.owners), None)

    def is_in(self, revision: Revision) -> bool:
        return self.extension.era in (None, "modern" if revision.modern else "legacy")

    def concerns(self, entry: Any) -> bool:
        """Whether it runs around calls of an entry: one that was mounted, only around its own."""
        origin = entry.origin
        return not self.owners or (origin is not None and origin.is_from(self.owners))

    def mounted(self, provider: Any) -> Added:
        """Return it as it is where the provider that has it is mounted."""
        methods = {
            name: evolve(
                method,
                scopes=method.scopes | provider.scopes,
                timeout=provider.tool_timeout if method.timeout is None else method.timeout,
            )
            for name, method in self.methods.items()
        }
        return evolve(self, methods=methods, owners=self.owners or (provider,))


def added_by(extension: Extension) -> Added:
    """Ask an extension what it adds, or raise `SchemaError` if it is not well made."""
    if isinstance(extension, type) or not hasattr(extension, "opened"):
        raise SchemaError(f"an extension must be a ServerExtension, not {extension!r:.100}")
    with _naming(extension):
        check_identifier(extension.identifier)
        if not (extension.era is None or extension.era in get_args(Era)):
            raise SchemaError(f"era must be 'modern', 'legacy' or None, not {extension.era!r}")
        for method in extension.wraps:
            if method not in WRAPPABLE:
                possible = ", ".join(WRAPPABLE)
                raise SchemaError(f"nothing can be run around {method!r:.100}, only {possible}")
        return Added(
            extension=extension,
            settings=json_of("settings", extension.settings) or {},
            methods=_methods_of(extension),
            notifications=dict(extension.notifications()),
            subscriptions=list(extension.subscriptions()),
        )


@contextmanager
def _naming(extension: Extension) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        name = getattr(extension, "identifier", extension)
        raise SchemaError(f"Extension {name!r:.100}: {error}") from None


def _methods_of(extension: Extension) -> dict[str, MethodHandler]:
    found: dict[str, MethodHandler] = {}
    for method in extension.methods():
        row = method.row
        check_method(row, {**METHODS, **{name: each.row for name, each in found.items()}})
        check_timeout(method.timeout, f"method {row.name!r}: timeout")
        handler = MethodHandler(
            name=row.name,
            function=_by_name(method.handler),
            timeout=method.timeout,
            scopes=scopes_of(method.scopes),
            extension=extension,
            row=row,
            open_to_all=method.open_to_all,
        )
        if not is_async(method.handler):
            raise SchemaError(f"method {row.name!r}: its handler must be an async function")
        found[row.name] = handler
    return found


class Extensions:
    """The extensions of one registry: its own, and those that came with what is mounted."""

    def __init__(self, own: Iterable[Added] = ()) -> None:
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
        for added in own:
            self._add(added)

    def __contains__(self, identifier: str) -> bool:
        return identifier in self._added

    def __iter__(self) -> Iterator[Extension]:
        return (added.extension for added in self._added.values())

    def find(self, identifier: str) -> Added:
        return self._added[identifier]

    def adopt(self, others: Extensions, provider: Any) -> None:
        """Add those of a provider that is mounted. One that is here already serves for both.

        Raises:
            SchemaError: One of them clashes with another one.
        """
        for identifier, added in others._added.items():
            known, mounted = self._added.get(identifier), added.mounted(provider)
            if known is None:
                self._add(mounted)
            elif known.owners:
                owners = (*known.owners, *mounted.owners)
                self._added[identifier] = evolve(known, owners=owners)

    def _add(self, added: Added) -> None:
        extension = added.extension
        told = [subscription.notification for subscription in added.subscriptions]
        sent = dict.fromkeys((*extension.sends, *told), extension)
        with _naming(extension):
            if extension.identifier in self._added:
                raise SchemaError("there is an extension of that name already")
            for method in added.methods.values():
                check_method(method.row, self.rows)
            self._check_notifications(added.notifications, sent)
            self._check_keys(added.subscriptions)
            self._check_results(extension)
        self._added[extension.identifier] = added
        self.methods.update(added.methods)
        rows = {name: method.row for name, method in added.methods.items()}
        self.rows = MappingProxyType({**self.rows, **rows})
        self.notifications.update({n: (added, take) for n, take in added.notifications.items()})
        self.sent.update(sent)
        self.subscriptions.update({item.key: (added, item) for item in added.subscriptions})
        self._result_types.update(extension.result_types)
        for name in extension.wraps:
            self.wrapping.setdefault(name, []).append(extension)

    def _check_notifications(self, taken: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
        for name in (*taken, *sent):
            check_name("notification", name)
        for name, take in taken.items():
            if not callable(take):
                raise SchemaError(f"{name!r} must go to a function, not to {safe_repr(take)}")
        for name in (*(self.notifications.keys() & taken), *(self.sent.keys() & sent)):
            raise SchemaError(f"another extension has {name!r} already")

    def _check_keys(self, subscriptions: Sequence[ExtensionSubscription]) -> None:
        seen = set(self.subscriptions)
        for subscription in subscriptions:
            check_name("subscription", subscription.key)
            if subscription.key in seen:
                raise SchemaError(
                    f"there is a subscription with the key {subscription.key!r} already"
                )
            seen.add(subscription.key)

    def _check_results(self, extension: Extension) -> None:
        for name in extension.result_types:
            check_name("result type", name)
            if name in self._result_types:
                raise SchemaError(f"another extension has the result type {name!r} already")

    def has_method(self, name: str, revision: Revision) -> bool:
        method = self.methods.get(name)
        if method is None:
            return False
        added = self._added[method.extension.identifier]
        return method.row.is_in(revision) and added.is_in(revision)

    # -- what is declared, and with what things are registered -------------------------------

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """Return what to declare to a client."""
        return {
            identifier: added.settings
            for identifier, added in self._added.items()
            if added.is_in(revision)
        }

    def options(
        self, kind: Offered, name: str, given: Any
    ) -> tuple[dict[str, Any], dict[str, Json]]:
        """Check the options that an entry has for extensions.

        Returns:
            What each extension makes of its option, and the `_meta` of the entry's description.

        Raises:
            SchemaError: An extension refuses its option, or the registry does not have it.
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


def _by_name(answer: Answer) -> Callable[..., Any]:
    async def run(request: ExtensionRequest) -> Mapping[str, Json]:
        return await answer(request)

    return run


def _no_such(identifier: Any, known: Collection[str]) -> str:
    there = f"there are {', '.join(known)}" if known else "there is none"
    return (
        f"the registry has no extension {identifier!r:.100}, {there}; give it to "
        "Registry(extensions=[...]), or add it with add_extension before what needs it"
    )
