"""Clients that call without a pause, and what became of each call."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Final, Literal

import httpx2
import trio
from attrs import define, field

from tests.support.client import LEGACY, MODERN, modern_meta

Outcome = Literal[
    "answered", "answered with an error", "refused (503)", "no session (404)", "broken"
]
OUTCOMES: Final[tuple[Outcome, ...]] = (
    "answered",
    "answered with an error",
    "refused (503)",
    "no session (404)",
    "broken",
)
"""What a client sees. Broken: no answer, or one of the balancer's (502, 504)."""

PATIENCE: Final = 15.0
"""Seconds after which a client takes a call for lost."""


@define
class Tally:
    """What became of the calls of some clients."""

    outcomes: Counter[Outcome] = field(factory=Counter)
    answered: set[str] = field(factory=set)
    sent: int = 0
    longest: float = 0.0
    """Seconds that the slowest answer took."""

    def note(self, key: str, outcome: Outcome, seconds: float) -> None:
        self.outcomes[outcome] += 1
        if outcome == "answered":
            self.answered.add(key)
            self.longest = max(self.longest, seconds)


class Caller:
    """A client that takes a fault as it comes, and never sends a call twice.

    Args:
        url: Where the balancer is.
        name: What its keys begin with.
        era: Whether it has a session.
    """

    def __init__(self, url: str, name: str, era: Literal["legacy", "modern"]) -> None:
        self._url = url
        self._name = name
        self._era = era
        self._numbers = itertools.count(1)
        self._session: str | None = None

    async def run(self, tally: Tally, until: trio.Event) -> None:
        """Call until an event is set."""
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as http:
            while not until.is_set():
                if self._era == "legacy" and self._session is None:
                    await self._begin(http)
                    continue
                key = f"{self._name}-{next(self._numbers)}"
                tally.sent += 1
                began = trio.current_time()
                outcome = await self._call(http, key)
                tally.note(key, outcome, trio.current_time() - began)
                if outcome == "no session (404)":
                    self._session = None
                elif outcome != "answered":
                    await trio.sleep(0.05)

    async def _begin(self, http: httpx2.AsyncClient) -> None:
        params = {
            "protocolVersion": LEGACY[-1],
            "capabilities": {},
            "clientInfo": {"name": "load", "version": "1"},
        }
        try:
            response = await self._post(http, "initialize", params)
        except httpx2.HTTPError:
            response = None
        if response is not None and response.status_code == 200:
            self._session = response.headers["mcp-session-id"]
        else:
            await trio.sleep(0.05)

    async def _post(self, http: httpx2.AsyncClient, method: str, params: dict[str, Any]) -> Any:
        headers = {"accept": "application/json, text/event-stream"}
        if self._era == "modern":
            params = {**params, "_meta": modern_meta()}
            headers |= {"mcp-protocol-version": MODERN[0], "mcp-method": method}
            headers |= {"mcp-name": params["name"]}
        elif self._session is not None:
            headers |= {"mcp-protocol-version": LEGACY[-1], "mcp-session-id": self._session}
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        return await http.post(self._url, json=message, headers=headers)

    async def _call(self, http: httpx2.AsyncClient, key: str) -> Outcome:
        params = {"name": "mark", "arguments": {"key": key}}
        try:
            response = await self._post(http, "tools/call", params)
        except (httpx2.HTTPError, OSError):
            return "broken"
        if response.status_code == 503:
            return "refused (503)"
        if response.status_code == 404:
            return "no session (404)"
        if response.status_code >= 500:
            return "broken"
        message = response.json()
        if "result" not in message or message["result"].get("isError"):
            return "answered with an error"
        assert message["result"]["content"][0]["text"] == key
        return "answered"
