"""One request, with all that its handler needs to know of where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import define, evolve, field

from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.registry.context import Context
from trio_mcp.server.caller import Caller, invalid
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.threads import offload
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.conversion import Misfit, from_wire
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.revisions import Revision

if TYPE_CHECKING:  # no start waits for OAuth
    from trio_mcp.auth.authorization import Authorization
    from trio_mcp.registry.conversation import Conversation
    from trio_mcp.registry.http_info import HttpInfo
    from trio_mcp.registry.sealing import HashedBinding


T = TypeVar("T")

_OF_ONE_ROUND: Final = ("_meta", "inputResponses", "requestState")
"""Parameters that are others when a request is sent again with answers."""


@define(eq=False, repr=False)
class RequestContext:
    """A request that is being answered."""

    server: Server
    """What is served."""
    id: Id
    method: str
    params: dict[str, Json]
    caller: Caller
    """Who sent it, and in which revision."""
    session: Session
    """On which connection."""
    authorization: Authorization | None = None
    """What its sender's token allows: kept here, as the next request may have another token."""
    headers: Mapping[bytes, bytes] | None = field(default=None, repr=False)
    """Those of the HTTP request that brought it, credentials among them."""
    _hashed_binding: HashedBinding | None = field(default=None, init=False)

    @property
    def revision(self) -> Revision:
        """The revision that its sender speaks."""
        return self.caller.revision

    @property
    def meta(self) -> dict[str, Json] | None:
        """The request's `_meta`; `None` if it has none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else None

    def lean(self, params: dict[str, Json]) -> RequestContext:
        """Return what lasts longer than the request, with other parameters and a bounded caller.

        Raises:
            McpError: The caller has declared too much (`-32602`).
        """
        caller = self.caller.kept(self.server.limits.max_client_bytes)
        return evolve(self, params=params, caller=caller, headers=None)

    def complete(self, result: dict[str, Json]) -> dict[str, Json]:
        """Add to a result what the request's revision wants in every result."""
        return self.server.complete(result, self.caller.revision)

    def completed(self, answer: Answer) -> Answer:
        """Do the same with an answer, if it is a result."""
        if isinstance(answer, Result):
            self.server.complete(answer.members, self.caller.revision)
        return answer

    def binding(self, kind: str) -> Json | HashedBinding:
        """Return what a sealed state of this request is good for: the same request again.

        Args:
            kind: What it asks for: a method of an extension may have any parameters.
        """
        if self._hashed_binding is not None:
            return self._hashed_binding
        params = self.params
        if kind == "method":
            about = {name: each for name, each in params.items() if name not in _OF_ONE_ROUND}
        else:
            about = {name: params.get(name) for name in ("name", "uri", "arguments")}
            about["arguments"] = about["arguments"] or {}  # none at all are not others
        return [self.server.registry.name, self.method, about, self.session.principal]

    async def hash_binding(self, kind: str) -> None:
        """Hash the binding once for all; in a thread, if it is large."""
        from trio_mcp.registry.sealing import hash_binding  # few requests have a state

        with suppress(TypeError):  # which is reported where the state is opened
            self._hashed_binding = await offload(hash_binding, self.binding(kind))

    def state_keeper(self, provider: Any) -> Any:
        """Return what keeps state for its sender, in the code of a provider (a `StateKeeper`)."""
        from trio_mcp.registry.kept_state import StateKeeper  # few servers keep any

        session, server = self.session, self.server
        catalogue = server.catalogue if provider is None else provider
        return StateKeeper(
            registry=catalogue.name,
            store=server.opened.store or catalogue.own_store,
            limits=server.limits,
            principal=session.principal,
            connection=session.connection_id,
            owner=session.principal or session.address or "",
        )

    def make_context(
        self, tool: str, conversation: Conversation | None = None, provider: Any = None
    ) -> Context:
        """Make what the author's code meets its caller through.

        Args:
            tool: What was asked for.
            conversation: The way to say and to ask something; without it, that is not possible.
            provider: The mounted provider whose code it is; `None` for the registry's own.
        """
        session, server = self.session, self.server
        return Context(
            tool=tool,
            lifespan=server.state_of(provider),
            request_id=None if self.id == "" else self.id,  # which a notification has
            connection_id=session.connection_id,
            client_address=session.address,
            revision=self.revision.name,
            principal=session.principal,
            authorization=self.authorization,
            client=self.caller.identity(),
            capabilities=self.caller.capabilities,
            meta=self.meta,
            http=self._http(),
            conversation=conversation,
            opened=server.opened,
        )

    def _http(self) -> HttpInfo | None:
        if self.headers is None:
            return None
        from trio_mcp.registry.http_info import Headers, HttpInfo  # over HTTP only

        return HttpInfo(Headers(self.headers))


MethodHandler = Callable[[RequestContext], dict[str, Json] | InboundRequest]
"""Answers a request of a method, or makes a call of what takes time."""


def params_of(context: RequestContext, kind: type[T]) -> T:
    """Read the parameters of a request, or raise `McpError` (`-32602`)."""
    try:
        return from_wire(context.params, kind)
    except Misfit as error:
        raise misfit(error) from None


def misfit(error: Misfit) -> McpError:
    """Make the error for parameters that do not fit: which one, what was expected and what came."""
    data = {"parameter": error.path, "expected": error.expected, "got": error.got}
    return invalid(str(error), data)


def texts_of(name: str, value: Json, limit: int) -> list[str]:
    """Read a list of texts from parameters, each once, or raise `McpError` (`-32602`)."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise invalid(f'"{name}" must be an array of strings')
    if len(value) > limit:
        raise invalid(f'"{name}" holds {len(value)} items; at most {limit} are served')
    return list(dict.fromkeys(value))


def check_subscriptions(context: RequestContext, count: int, size: int) -> None:
    """Refuse one more subscription than a connection may have.

    Raises:
        McpError: There are as many already, or they name as much (`-32602`).
    """
    limits = context.server.limits
    if count >= limits.max_subscriptions:
        why = f"There are {limits.max_subscriptions} subscriptions already, which is the limit"
        raise McpError(INVALID_PARAMS, why)
    if size > limits.max_subscription_bytes:
        limit = limits.max_subscription_bytes
        why = f"Subscriptions may name {limit} bytes together, not {size}"
        raise McpError(INVALID_PARAMS, why)


def size_of(texts: Iterable[str | None]) -> int:
    """Return how many bytes some texts have together."""
    return len("".join(filter(None, texts)).encode("utf-8", "surrogatepass"))
