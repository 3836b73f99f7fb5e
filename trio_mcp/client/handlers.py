"""What a server may ask of its client, and who answers it.

A legacy server asks with a request of its own; a modern one answers `input_required` and is asked
again. The same handlers serve both. What has no handler is not declared, and is refused.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from attrs import field, frozen

from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Json

Params = dict[str, Json]
Answer = Callable[[Params], Awaitable[dict[str, Json]]]

_CAPABILITIES: Final[dict[str, tuple[str, dict[str, Json]]]] = {
    "sampling/createMessage": ("sampling", {}),
    "elicitation/create": ("elicitation", {}),
    "roots/list": ("roots", {}),
}


@frozen(kw_only=True)
class Handlers:
    """Answers to a server's questions.

    Args:
        sampling: Answers `sampling/createMessage`: parameters in, result out, as JSON objects.
        elicitation: Answers `elicitation/create`, likewise.
        roots: The roots of the file system that the server may see, as `file:` URIs.

    Example:
        >>> async def decline(params):
        ...     return {"action": "decline"}
        >>> handlers = Handlers(elicitation=decline, roots=["file:///srv/data"])
    """

    sampling: Answer | None = None
    elicitation: Answer | None = None
    roots: Sequence[str] | None = None
    _table: dict[str, Answer] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Put the handlers in a table by method."""
        table = {
            "sampling/createMessage": self.sampling,
            "elicitation/create": self.elicitation,
            "roots/list": None if self.roots is None else self._list_roots,
        }
        object.__setattr__(self, "_table", {key: each for key, each in table.items() if each})

    @property
    def capabilities(self) -> dict[str, Json]:
        """What to declare to the server: just what there is a handler for."""
        return dict(_CAPABILITIES[method] for method in self._table)

    async def answer(self, method: str, params: Params) -> dict[str, Json]:
        """Answer one question.

        Raises:
            McpError: There is no handler for it (`-32601`).
            Exception: Whatever the handler raises.
        """
        handler = self._table.get(method)
        if handler is None:
            raise McpError(METHOD_NOT_FOUND, f"{method} handler not registered")
        return await handler(params)

    async def _list_roots(self, params: Params) -> dict[str, Json]:
        return {"roots": [{"uri": each} for each in self.roots or ()]}
