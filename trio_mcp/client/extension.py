"""Extensions on the client's side: the class to derive from, and the requests that they finish."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from attrs import field, frozen

from trio_mcp.client.client import Client
from trio_mcp.client.notifications import ProgressCallback
from trio_mcp.client.session import ClientRequest, ClientSession
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.public import public_in
from trio_mcp.registry.checks import json_of
from trio_mcp.wire.extensions import Kind, check_identifier, check_method, check_name
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import METHODS, Method
from trio_mcp.wire.revisions import Era

TakeNotification = Callable[[dict[str, Json]], object]


@public_in("trio_mcp.extending")
@frozen(kw_only=True)
class PendingCall:
    """A request that the server has answered with a result type of an extension."""

    client: Client
    _session: ClientSession = field(repr=False)
    _request: ClientRequest = field(repr=False)
    _limit: TimeLimit = field(repr=False)

    @property
    def method(self) -> str:
        """Its method."""
        return self._request.method

    @property
    def params(self) -> dict[str, Json]:
        """Its parameters, as they were given."""
        return self._request.params

    @property
    def on_progress(self) -> ProgressCallback | None:
        """The callback for its progress."""
        return self._request.on_progress

    async def answer(self, questions: Mapping[str, Json]) -> dict[str, Json]:
        """Answer a server's questions, as `Client.answer` does.

        Meanwhile the time limit of the request stands still.
        """
        with self._limit.paused():
            return await self._session.answer(self._request, questions)


@public_in("trio_mcp.extending")
class ClientExtension:
    """An extension of the protocol, on the client's side (SEP-2133). Derive from it.

    What is data stands in attributes; override the methods that you need. Make an object for each
    connection, and give it to `connect(extensions=[...])`.

    The client declares the extension when it connects. To a server that does not declare it too, it
    sends no more of it, and `Client.extensions` does not have it.

    Example:
        >>> class Greetings(ClientExtension):
        ...     identifier = "com.example/greetings"
        ...
        ...     def methods(self):
        ...         return [Method(name="com.example/greet", target="name", repeatable=True)]
        >>> async def greet(registry: Registry) -> dict[str, object]:
        ...     async with connect(registry, extensions=[Greetings()]) as client:
        ...         return await client.request("com.example/greet", {"name": "Ada"})
    """

    identifier: str = ""
    """Its name, as the server has it."""

    settings: Mapping[str, Json] = MappingProxyType({})
    """What the client declares of it under `capabilities.extensions`."""

    era: Era | None = None
    """The only era in which there is such a thing; `None` for both."""

    one_sided: bool = False
    """Whether it is declared to servers that do not declare it themselves."""

    result_types: Mapping[str, Collection[str]] = MappingProxyType({})
    """The values of `resultType` that `finish` deals with, each with the methods that may be
    answered so."""

    subscriptions: Collection[str] = ()
    """The keys that it adds to what `Client.subscribe` can ask for."""

    def methods(self) -> Sequence[Method]:
        """Return the methods of the server that it adds. Asked for once.

        They are not sent to a server that does not declare the extension.
        """
        return ()

    def notifications(self) -> Mapping[str, TakeNotification]:
        """Return, by method, who takes a notification of the server's. Asked for once.

        The functions get its parameters, and must not wait.
        """
        return {}

    async def finish(self, call: PendingCall, result: dict[str, Json]) -> dict[str, Json]:
        """Turn a result of one of the `result_types` into the final one.

        Where the caller has set a `timeout`, it is cancelled when that has passed; otherwise it has
        all the time that it needs. It is cancelled when the caller is.

        Args:
            call: The request.
            result: What the server answered.

        Returns:
            The members of the final result.

        Raises:
            Exception: Whatever it raises, the caller of the request gets.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def lifespan(self, client: Client) -> AsyncIterator[None]:
        """Run work of the extension beside the connection, from the handshake to its end.

        It is entered only where the server has the extension, too.
        """
        yield


class ClientExtensions:
    """Checks the extensions of one connection, and adds them to its session.

    Raises:
        ValueError: Two of them clash, or one clashes with the protocol, or is not well made.
    """

    def __init__(self, extensions: Sequence[ClientExtension]) -> None:
        self._all: dict[str, ClientExtension] = {}
        self.settings: dict[str, dict[str, Json]] = {}
        """What to declare, by identifier."""
        self.methods: dict[str, Method] = dict(METHODS)
        """All methods that there are."""
        self._owners: dict[str, str] = {}
        self._taken: dict[str, Mapping[str, TakeNotification]] = {}
        self._names: set[tuple[str, str]] = set()  # what each is, and what it is called
        for extension in extensions:
            try:
                self._add(extension)
            except ValueError as error:
                name = getattr(extension, "identifier", extension)
                raise ValueError(f"Extension {name!r:.100}: {error}") from None

    def _add(self, extension: ClientExtension) -> None:
        if not isinstance(extension, ClientExtension):
            raise ValueError(f"an extension must be a ClientExtension, not {extension!r:.100}")
        identifier = check_identifier(extension.identifier)
        if identifier in self._all:
            raise ValueError("there is an extension of that name already")
        self._all[identifier] = extension
        self.settings[identifier] = json_of("settings", extension.settings) or {}
        for method in extension.methods():
            check_method(method, self.methods)
            self.methods[method.name] = method
            self._owners[method.name] = identifier
        taken = self._taken[identifier] = dict(extension.notifications())
        for name in taken:
            self._take_name("notification", name)
        for name, take in taken.items():
            if not callable(take):
                raise ValueError(f"{name!r} must go to a function, not to {take!r:.60}")
        for name in extension.result_types:
            self._take_name("result type", name)
        for name in extension.subscriptions:
            self._take_name("subscription", name)

    def _take_name(self, kind: Kind, name: Any) -> None:
        check_name(kind, name)
        if (kind, name) in self._names:
            raise ValueError(f"another extension has the {kind} {name!r} already")
        self._names.add((kind, name))

    @property
    def by_era(self) -> dict[Era, dict[str, Json]]:
        """The settings to declare, in each era."""
        return {
            era: {
                name: settings
                for name, settings in self.settings.items()
                if self._all[name].era in (None, era)
            }
            for era in get_args(Era)
        }

    @property
    def one_sided(self) -> frozenset[str]:
        """The extensions that are declared to every server."""
        return frozenset(name for name, extension in self._all.items() if extension.one_sided)

    def agree(self, client: Client, session: ClientSession) -> None:
        """Enable the extensions that the server has, too."""
        shared = session.shared_extensions
        session.unshared_methods = {
            name: owner for name, owner in self._owners.items() if owner not in shared
        }
        session.subscription_keys = {
            key: name in shared
            for name, extension in self._all.items()
            for key in extension.subscriptions
        }
        for name in shared:
            extension = self._all[name]
            session.notifications.callbacks.update(self._taken[name])
            for kind, methods in extension.result_types.items():
                finish = partial(_finish, extension, client, session)
                session.finishers[kind] = (frozenset(methods), finish)

    @asynccontextmanager
    async def running(self, way: AbstractAsyncContextManager[Client]) -> AsyncIterator[Client]:
        """Connect, and keep the lifespans of shared extensions open."""
        async with way as client, AsyncExitStack() as stack:
            for name in client.extensions:
                await stack.enter_async_context(self._all[name].lifespan(client))
            yield client


async def _finish(
    extension: ClientExtension,
    client: Client,
    session: ClientSession,
    request: ClientRequest,
    result: dict[str, Json],
    limit: TimeLimit,
) -> dict[str, Json]:
    call = PendingCall(client=client, session=session, request=request, limit=limit)
    final: Any = await extension.finish(call, result)
    if not isinstance(final, dict):
        what = f"{type(extension).__name__}.finish"
        raise TypeError(f"{what} must return a dict, not {type(final).__name__}")
    made: dict[str, Json] = final
    return made
