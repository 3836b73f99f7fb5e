"""What an extension adds to a server: methods, subscriptions, and the request that they get."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import Factory, field, frozen

from trio_mcp.public import public_in
from trio_mcp.registry.context import Context
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.extensions import missing
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.methods import Method
from trio_mcp.wire.payloads import Implementation
from trio_mcp.wire.revisions import NEWEST

if TYPE_CHECKING:
    from trio_mcp.auth.authorization import Authorization


class TopicWatcher(Protocol):
    """Subscribes a client to topics of an extension."""

    def watch(self, key: str, value: str | None) -> None: ...

    def unwatch(self, key: str, value: str | None) -> None: ...


@public_in("trio_mcp.extending")
@frozen(kw_only=True)
class ExtensionRequest:
    """A request, or a notification, as an extension of the server gets it.

    Make one yourself for a call that no client is waiting for (`ExtensionServing.call`): give it
    the method, the parameters, and in whose name it is called.
    """

    method: str
    params: dict[str, Json] = field(factory=dict, repr=False)
    revision: str = NEWEST.name
    """The protocol revision that its sender speaks."""
    capabilities: dict[str, Json] = field(factory=dict, repr=False)
    """What its sender has declared: with this request, or at the start of a legacy session."""
    client: Implementation | None = None
    """Who its sender says it is. It is not verified."""
    principal: str | None = None
    """As `Context.principal`."""
    authorization: Authorization | None = None
    """As `Context.authorization`."""
    identifier: str = ""
    """The extension that it is for."""
    settings: dict[str, Json] | None = None
    """What the client declares of the extension; `None` if it does not have it."""
    option: Any = None
    """What the tool, resource or prompt has for the extension: what `check_option` returned."""
    state: Any = None
    """What the extension's lifespan yielded."""
    registry_state: Any = None
    """What the registry's lifespan yielded."""
    request_id: Id | None = None
    connection_id: str | None = None
    answers: dict[str, Json] = field(factory=dict, repr=False)
    """What its sender has answered in earlier rounds of a modern request, by the names of the
    questions."""
    context: Context = Factory(lambda self: Context(tool=self.method), takes_self=True)
    """The way to talk back to the sender: progress, log, questions."""
    _watcher: TopicWatcher | None = field(default=None, repr=False)

    @property
    def meta(self) -> dict[str, Json]:
        """Its `_meta`."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    def require(self) -> dict[str, Json]:
        """Return what the client declares of the extension.

        Raises:
            McpError: It does not have it (`-32021`).
        """
        if self.settings is None:
            raise missing(self.capabilities, self.identifier)
        return self.settings

    def watch(self, key: str, value: str | None = None) -> None:
        """Subscribe this client to a topic, for as long as its session lasts.

        This is for legacy sessions, which have no `subscriptions/listen`. A client that watches
        the same thing again is notified once.

        Args:
            key: The subscription's.
            value: What it is about; `None` for one that is either on or off.

        Raises:
            McpError: There is no session that stays open (`-32600`), or it has
                `Limits.max_subscriptions` subscriptions already (`-32602`).
            KeyError: The extension has no such subscription.
        """
        if self._watcher is None:
            raise McpError(INVALID_REQUEST, f"{self.method} needs a session that stays open")
        self._watcher.watch(key, value)

    def unwatch(self, key: str, value: str | None = None) -> None:
        """End a subscription of this client, if there is one."""
        if self._watcher is not None:
            self._watcher.unwatch(key, value)


Answer = Callable[[ExtensionRequest], Awaitable[Mapping[str, Json]]]


@public_in("trio_mcp.extending")
@frozen(kw_only=True)
class ExtensionMethod:
    """A method that an extension adds to a server.

    Args:
        row: Its name, and what is to be known of it.
        handler: Answers it with the members of its result. It may raise `McpError`; the text of any
            other exception stays in the log.
        timeout: Seconds that it may take, instead of the registry's `tool_timeout`.
        scopes: What a caller's access token must allow, where callers have one.
        open_to_all: Whether clients may send it that have not declared the extension. Otherwise
            they get -32021, which names it.

    Example:
        >>> async def count(request: ExtensionRequest) -> dict[str, object]:
        ...     return {"count": 7}
        >>> method = ExtensionMethod(row=Method(name="com.example/count"), handler=count)
    """

    row: Method
    handler: Answer
    timeout: float | None = None
    scopes: Sequence[str] = ()
    open_to_all: bool = False


Params = Callable[[ExtensionRequest, str | None], Awaitable[Mapping[str, Json] | None]]
Accept = Callable[[ExtensionRequest, Sequence[str]], Awaitable[Collection[str]]]


@public_in("trio_mcp.extending")
@frozen(kw_only=True)
class ExtensionSubscription:
    """Something that clients can ask for in the filter of `subscriptions/listen`.

    The filter has a list of texts under the key, such as ids; or `true`. After
    `ExtensionServing.changed`, each client that asked gets a notification. Several changes before
    that become one notification, which says how things are then.

    Args:
        key: The key in the filter.
        notification: The method of the notification.
        params: Makes its parameters: gets the request that asked, and the text from its list
            (`None` if there is no list). If it returns `None`, nothing is sent.
        has_list: Whether the filter has a list under the key, or `true`.
        accept: Says which texts of the list the client may subscribe to; by default, all. The
            acknowledgement names these.
    """

    key: str
    notification: str
    params: Params
    has_list: bool = True
    accept: Accept | None = None
