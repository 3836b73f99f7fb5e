"""Checks of our own, for a scenario that the suite has emptied for the time being.

`tasks-status-notifications` skips itself: its harness waits to be written again for
`subscriptions/listen`. What its description demands is checked here, of whatever server is at a URL.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from attrs import define, field

from tests.support.client import MODERN, modern_meta

CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
DECLARED: Final = {
    "elicitation": {"form": {}},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}
STATUSES: Final = ("working", "input_required", "completed", "failed", "cancelled")
LIMIT: Final = 60.0
"""Seconds for anything that the server says."""


@define
class Report:
    """What was found, in the form of the suite."""

    scenario: str
    checks: list[dict[str, str]] = field(factory=list)

    def note(self, name: str, description: str, problem: str | None = None) -> None:
        check = {"id": f"{self.scenario}-{name}", "name": name, "description": description}
        if problem is None:
            self.checks.append({**check, "status": "SUCCESS"})
        else:
            self.checks.append({**check, "status": "FAILURE", "errorMessage": problem})


@define
class _Client:
    http: httpx2.Client
    url: str

    def _message(
        self, method: str, params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        meta = modern_meta(**{CAPABILITIES: DECLARED})
        headers = {"accept": "application/json, text/event-stream", "mcp-method": method}
        headers |= {"mcp-protocol-version": MODERN[0]}
        if named := params.get("name", params.get("taskId")):
            headers["mcp-name"] = named
        message = {"jsonrpc": "2.0", "id": secrets.token_hex(4), "method": method}
        return {**message, "params": {**params, "_meta": meta}}, headers

    def request(self, method: str, **params: Any) -> Any:
        message, headers = self._message(method, params)
        response = self.http.post(self.url, json=message, headers=headers)
        return response.json()["result"]

    def begin(self, tool: str, **arguments: Any) -> str:
        return str(self.request("tools/call", name=tool, arguments=arguments)["taskId"])

    @contextmanager
    def listen(self, *ids: str) -> Iterator[tuple[str, Iterator[Any]]]:
        """Subscribe to tasks; yield the id of the subscription, and the messages of its stream."""
        message, headers = self._message(
            "subscriptions/listen", {"notifications": {"taskIds": list(ids)}}
        )
        post = self.http.stream("POST", self.url, json=message, headers=headers)
        with post as response:
            yield message["id"], _messages(response)


def _messages(response: Any) -> Iterator[Any]:
    for line in response.iter_lines():
        if line.startswith("data:") and line[5:].strip():
            yield json.loads(line[5:])


def _follow(
    report: Report,
    client: _Client,
    how: str,
    id: str,
    until: str,
    act: Callable[[], object],
) -> Any:
    """Listen to a task until it has a status, and judge all that is said of it."""
    stranger = secrets.token_hex(16)
    with client.listen(id, stranger) as (subscription, messages):
        acknowledged = next(messages)
        agreed = acknowledged.get("params", {}).get("notifications", {}).get("taskIds")
        report.note(
            f"{how}-acknowledged",
            "The subscription is acknowledged for the caller's task, and for no other",
            None if agreed == [id] else f"acknowledged were {agreed!r}, not {[id]!r}",
        )
        act()
        problems, params = [], {}
        for message in messages:
            if message.get("method") != "notifications/tasks":
                continue
            params = message["params"]
            problems += _problems(params, id, subscription)
            if params.get("status") == until:
                break
        report.note(
            f"{how}-named",
            "Each notification has taskId, status, and the id of its subscription",
            "; ".join(problems) or None,
        )
        report.note(
            f"{how}-{until}",
            f"There is a notification of the status {until}",
            None if params.get("status") == until else "the stream ended before",
        )
        return params


def _problems(params: Any, id: str, subscription: str) -> list[str]:
    found = []
    if params.get("taskId") != id:
        found.append(f"taskId is {params.get('taskId')!r}")
    if params.get("status") not in STATUSES:
        found.append(f"status is {params.get('status')!r}")
    if params.get("_meta", {}).get(SUBSCRIPTION) != subscription:
        found.append(f"the subscription is {params.get('_meta')!r}")
    return found


def _nothing() -> None:
    pass


def check_task_notifications(url: str, report: Report) -> None:
    """Do what the scenario's description says, with the tools of the suite's other scenarios."""
    with httpx2.Client(timeout=LIMIT, trust_env=False) as http:
        client = _Client(http, url)
        id = client.begin("slow_compute", seconds=3)
        last = _follow(report, client, "completed", id, "completed", _nothing)
        report.note(
            "completed-result",
            "A completed task has its result with it",
            None if "content" in (last.get("result") or {}) else f"it has {sorted(last)}",
        )
        id = client.begin("ask_later", seconds=3)
        asked = _follow(report, client, "asking", id, "input_required", _nothing)
        report.note(
            "asking-questions",
            "A task that waits for input has the questions with it",
            None if asked.get("inputRequests") else f"it has {sorted(asked)}",
        )

        def cancel() -> None:
            client.request("tasks/cancel", taskId=id)

        _follow(report, client, "cancelled", id, "cancelled", cancel)
        id = client.begin("protocol_error_job")
        failed = client.request("tasks/get", taskId=id)
        while failed["status"] == "working":
            failed = client.request("tasks/get", taskId=id)
        report.note(
            "failed-error",
            "A failed task has its error with it",
            None if "code" in (failed.get("error") or {}) else f"it has {sorted(failed)}",
        )


CHECKS: Final = {"tasks-status-notifications": check_task_notifications}
"""By the name of the scenario, what stands in for it."""


def write_checks(url: str, folder: Path) -> None:
    """Check what the scenarios demand of the server at a URL, and leave the outcomes in a folder."""
    for scenario in CHECKS:
        (folder / f"own-{scenario}.json").write_text(json.dumps(checks_of(scenario, url)))


def read_checks(scenario: str, folder: Path) -> list[dict[str, str]]:
    """Read what `write_checks` left there of a scenario, if it did."""
    file = folder / f"own-{scenario}.json"
    found: list[dict[str, str]] = json.loads(file.read_text()) if file.exists() else []
    return found


def checks_of(scenario: str, url: str) -> list[dict[str, str]]:
    """Check what a scenario demands of the server at a URL; return checks like the suite's."""
    report = Report(scenario)
    try:
        CHECKS[scenario](url, report)
    except (httpx2.HTTPError, KeyError, StopIteration) as error:
        report.note("end", "All of it comes to its end", repr(error))
    return report.checks
