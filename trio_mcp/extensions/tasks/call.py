"""The call of a task, as it is kept: all that is needed to run it, in any process."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar, Final

from attrs import frozen

from trio_mcp import Implementation
from trio_mcp.auth import Authorization
from trio_mcp.extending import ExtensionRequest
from trio_mcp.extensions.tasks.options import OnRestart, TaskOptions
from trio_mcp.extensions.tasks.record import Kept
from trio_mcp.telemetry import continued

_OF_ONE_ROUND: Final = ("inputResponses", "requestState")
_OF_A_TOKEN: Final = ("subject", "client_id", "issuer", "expires_at", "key_thumbprint", "login")


@frozen(kw_only=True)
class KeptCall(Kept):
    """What is to be run, for whom, and what a restart does to it."""

    _what: ClassVar = "the call of a task"

    request: dict[str, Any]
    on_restart: OnRestart
    timeout: float | None

    @property
    def _bulk(self) -> object:
        return [self.request["params"], self.request.get("authorization")]

    @classmethod
    def of(cls, request: ExtensionRequest, options: TaskOptions) -> KeptCall:
        """Keep what is needed of a request, and its trace, without the access token."""
        client, token = request.client, request.authorization
        kept: dict[str, Any] = {
            "method": request.method,
            "params": continued(
                {k: v for k, v in request.params.items() if k not in _OF_ONE_ROUND}
            ),
            "revision": request.revision,
            "capabilities": request.capabilities,
            "principal": request.principal,
        }
        if request.connection_id is not None:
            kept["connection_id"] = request.connection_id
        if client is not None:
            kept["client"] = {"name": client.name, "version": client.version}
        if token is not None:
            kept["authorization"] = {
                **{name: getattr(token, name) for name in _OF_A_TOKEN},
                "scopes": sorted(token.scopes),
                "claims": dict(token.claims),
            }
        limit = options.timeout
        return cls(
            request=kept, on_restart=options.on_restart, timeout=None if limit == inf else limit
        )

    def again(self) -> ExtensionRequest:
        """Make the request again."""
        kept = dict(self.request)
        if "client" in kept:
            kept["client"] = Implementation(**kept["client"])
        if "authorization" in kept:
            token = kept["authorization"]
            kept["authorization"] = Authorization(**{**token, "scopes": frozenset(token["scopes"])})
        return ExtensionRequest(**kept)
