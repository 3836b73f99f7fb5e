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

PATIENCE: Final = 30.0
"""Seconds after which a client takes a call for lost."""

CALLS: Final = 25
"""In a session, before its client begins another."""


@define
class Tally:
    """What became of the calls of some clients."""

    outcomes: Counter[Outcome] = field(factory=Counter)
    answered: set[str] = field(factory=set)
    sent: int = 0
    longest: float = 0.0
    """Seconds that the slowest answer took."""

    def note(self, key: str, outcome: Outcome, seconds: float) -> None:
        self.sent += 1
        self.outcomes[outcome] += 1
        self.longest = max(self.longest, seconds)
        if outcome == "answered":
            self.answered.add(key)


class Caller:
    """A client that takes a fault as it comes, and never sends a call twice.

    Args:
        url: Where the balancer is.
        name: What its keys begin with.
        era: Whether it has a session.
    """

    def __init__(self, url: str, name: str, era: Literal["legacy", "modern"]) -> None:
        self.url = url
        self._name = name
        self._era = era
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._left = 0
        """Calls until another session is begun."""

    async def end(self, http: httpx2.AsyncClient) -> int:
        """End the session; return the status of the answer."""
        assert self._session is not None
        headers = {"mcp-protocol-version": LEGACY[-1], "mcp-session-id": self._session}
        return (await http.delete(self.url, headers=headers)).status_code

    async def run(self, tally: Tally, until: trio.Event) -> None:
        """Call until an event is set."""
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as http:
            while not until.is_set():
                key = f"{self._name}-{next(self._numbers)}"
                began = trio.current_time()
                if self._era == "legacy" and not (self._session and self._left):
                    outcome = await self.begin(http)
                else:
                    outcome = await self.call(http, key)
                tally.note(key, outcome, trio.current_time() - began)
                if outcome == "no session (404)":
                    self._session = None
                elif outcome != "answered":
                    await trio.sleep(0.05)

    async def begin(self, http: httpx2.AsyncClient) -> Outcome:
        """Begin a session."""
        params = {
            "protocolVersion": LEGACY[-1],
            "capabilities": {},
            "clientInfo": {"name": "load", "version": "1"},
        }
        self._session = None
        outcome, response = await self._post(http, "initialize", params)
        if outcome == "answered":
            self._session, self._left = response.headers["mcp-session-id"], CALLS
        return outcome

    async def _post(
        self, http: httpx2.AsyncClient, method: str, params: dict[str, Any]
    ) -> tuple[Outcome, Any]:
        headers = {"accept": "application/json, text/event-stream"}
        if self._era == "modern":
            params = {**params, "_meta": modern_meta()}
            headers |= {"mcp-protocol-version": MODERN[0], "mcp-method": method}
            headers |= {"mcp-name": params["name"]}
        elif self._session is not None:
            headers |= {"mcp-protocol-version": LEGACY[-1], "mcp-session-id": self._session}
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        try:
            response = await http.post(self.url, json=message, headers=headers)
        except (httpx2.HTTPError, OSError):
            return "broken", None
        if response.status_code == 503 and "retry-after" in response.headers:
            return "refused (503)", None
        if response.status_code == 404:
            return "no session (404)", None
        if response.status_code >= 500:
            return "broken", None
        message = response.json()
        if "result" not in message or message["result"].get("isError"):
            return "answered with an error", None
        return "answered", response

    async def call(self, http: httpx2.AsyncClient, key: str) -> Outcome:
        """Have a mark left."""
        self._left -= 1
        params = {"name": "mark", "arguments": {"key": key}}
        outcome, response = await self._post(http, "tools/call", params)
        if outcome == "answered":
            assert response.json()["result"]["content"][0]["text"] == key
        return outcome
