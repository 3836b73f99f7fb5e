"""What any server must get right, in either era and over any transport.

No tool of the server is called, and no resource read: an examination changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from attrs import field, frozen

from trio_mcp.cli.doctor.descriptions import check_descriptions
from trio_mcp.cli.doctor.report import Report, Server, Severity, cut, shown
from trio_mcp.cli.probing.base import Answer, Probe, initialize_params
from trio_mcp.wire.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.revisions import (
    LEGACY,
    META_CLIENT_CAPABILITIES,
    META_SERVER_INFO,
    META_VERSION,
    MODERN,
    NEWEST,
    NEWEST_LEGACY,
)

UNKNOWN_VERSION: Final = "1900-01-01"
_NO_SUCH: Final = "trio-mcp-doctor-no-such-thing"
_MOST_PAGES: Final = 200
_LARGE: Final = 200_000
"""Bytes of a request that is large, and still smaller than many a file."""

_LISTS: Final = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
"""By method, the capability that it belongs to, and where the items are in its result."""


@frozen(kw_only=True)
class _Refusal:
    """A request that has to be refused."""

    what: str
    method: str
    params: dict[str, Json] = field(factory=dict)
    capability: str | None = None
    """The capability without which it says nothing."""
    code: int = INVALID_PARAMS
    """The code of its error,"""
    legacy_code: int = INVALID_PARAMS
    """or, from legacy servers, this one."""
    status: int | None = None
    """The HTTP status of its refusal in the modern era, if that is another than 200."""
    severity: Severity = "warning"
    """How bad another code is."""
    answered: Severity = "error"
    """How bad it is to answer with a result."""


_REFUSALS: Final = (
    _Refusal(
        what="an unknown method",
        method=f"{_NO_SUCH}/method",
        code=METHOD_NOT_FOUND,
        legacy_code=METHOD_NOT_FOUND,
        status=404,
    ),
    _Refusal(
        capability="tools",
        what="a call of an unknown tool",
        method="tools/call",
        params={"name": _NO_SUCH, "arguments": {}},
    ),
    _Refusal(
        capability="tools",
        what="a call that names no tool",
        method="tools/call",
        params={"arguments": {}},
        severity="note",
    ),
    _Refusal(
        capability="prompts",
        what="a request for an unknown prompt",
        method="prompts/get",
        params={"name": _NO_SUCH},
    ),
    _Refusal(
        capability="resources",
        what="a request for an unknown resource",
        method="resources/read",
        params={"uri": f"{_NO_SUCH}://none"},
        legacy_code=RESOURCE_NOT_FOUND,
        answered="note",
    ),
)
_OF_VERSION: Final = _Refusal(
    what="an unknown version",
    method="server/discover",
    params={"_meta": {META_VERSION: UNKNOWN_VERSION}},
    code=UNSUPPORTED_PROTOCOL_VERSION,
    status=400,
    severity="error",
)
_OF_META: Final = _Refusal(
    what="a request without the client's capabilities in `_meta`",
    method="server/discover",
    params={"_meta": {META_CLIENT_CAPABILITIES: None, META_VERSION: NEWEST.name}},
    severity="error",
)


async def check_legacy(report: Report, probe: Probe, *, patience: float) -> bool:
    """Check everything that a legacy client relies on; return whether there is one to serve."""
    answer = await probe.send_request(
        "initialize", initialize_params(NEWEST_LEGACY.name), patience=patience
    )
    if answer is None or not isinstance(answer.result, dict):
        return False
    result = answer.result
    report.starts.append(answer.seconds)
    version = result.get("protocolVersion")
    if version in LEGACY:
        report.legacy = probe.version = str(version)
    else:
        report.legacy = cut(version)
        report.add("bad-handshake", f"`initialize` is answered with the version {shown(version)}")
    info = result.get("serverInfo")
    report.server = server_of(info)
    if report.server is None:
        report.add("bad-handshake", f"serverInfo needs name and version: {shown(info)}")
    elif not report.server.version:
        report.add("no-version", "the version in its serverInfo is empty")
    capabilities = result.get("capabilities")
    if not isinstance(capabilities, dict):
        report.add("bad-handshake", "the result of `initialize` has no capabilities")
        capabilities = {}
    reply = await probe.send_notification("notifications/initialized")
    if reply is not None and reply.status != 202:
        what = f"a notification is answered with HTTP status {reply.status}, not 202"
        report.add("wrong-status", what)
    await _check_ping(report, probe)
    with _examined_in(report, probe):
        await _check_lists(report, probe, capabilities)
        await _check_refusals(report, probe, capabilities)
        await _check_robustness(report, probe, "ping")
    return True


async def check_version_negotiation(report: Report, probe: Probe, *, patience: float) -> None:
    """Check that an unknown version is answered with a known one (2025-11-25, "Lifecycle")."""
    what = f"`initialize` with the unknown version {UNKNOWN_VERSION}"
    answer = await probe.send_request(
        "initialize", initialize_params(UNKNOWN_VERSION), patience=patience
    )
    if answer is None and probe.gone is not None:
        report.add("dies", f"{what}: it {probe.gone} instead of answering")
    elif answer is None:
        report.add("no-answer", f"{what}: {_silence(patience)}")
    elif answer.error is not None:
        report.add("version-negotiation", f"{what} is refused: {_said(answer)}")
    elif isinstance(answer.result, dict):
        report.starts.append(answer.seconds)
        version = answer.result.get("protocolVersion")
        if version not in LEGACY:
            report.add("version-negotiation", f"{what} is answered with {shown(version)}")


async def check_modern(report: Report, probe: Probe, *, patience: float) -> bool:
    """Check everything that a modern client relies on; return whether there is one to serve."""
    answer = await probe.send_request("server/discover", patience=patience)
    if answer is None and probe.gone is None and report.legacy is not None:
        what = "`server/discover`, with which modern clients begin"
        report.add("no-answer", f"{what}: {_silence(patience)}", severity="warning")
    if answer is None or not isinstance(answer.result, dict):
        return False
    result = answer.result
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or not any(each in MODERN for each in versions):
        return False
    report.modern = max(each for each in versions if each in MODERN)
    report.starts.append(answer.seconds)
    _check_modern_result(report, "server/discover", result)
    meta = result.get("_meta")
    server = server_of(meta.get(META_SERVER_INFO) if isinstance(meta, dict) else None)
    if server is None:
        what = "`server/discover` does not say in `_meta` who the server is"
        report.add("bad-handshake", what, severity="warning")
    elif not server.version:
        report.add("no-version", "the version in its serverInfo is empty")
    report.server = server or report.server
    capabilities = result.get("capabilities")
    if not isinstance(capabilities, dict):
        report.add("bad-handshake", "the result of `server/discover` has no capabilities")
        capabilities = {}
    with _examined_in(report, probe):
        await _check_lists(report, probe, capabilities)
        await _check_refusals(report, probe, capabilities)
    await _check_meta(report, probe)
    with _examined_in(report, probe):
        await _check_robustness(report, probe, "server/discover")
    return True


def check_unexpected(report: Report, probe: Probe) -> None:
    """Check what came that should not have come."""
    spread = spread_message([each.line for each in probe.noise if each.fault is None])
    if spread is not None and not report.has("bad-message", "several lines"):
        report.add("bad-message", f"it writes one message in several lines: {shown(spread)}")
    plain = [each for each in probe.noise if each.fault is None and spread is None]
    kind = "stdout-noise" if probe.on_lines else "bad-message"
    if plain and not report.has(kind, "is no message"):  # it is another line at each start
        more = f" (and {len(plain) - 1} more)" if len(plain) > 1 else ""
        first = repr(cut(plain[0].line))
        does = "writes" if probe.on_lines else "answers"
        report.add(kind, f"what it {does} is no message: {first}{more}")
    for each in probe.noise:
        if each.fault is not None and not report.has("bad-message", each.fault):
            what = f"what it writes is no proper message, as {each.fault}"
            report.add("bad-message", f"{what}: {cut(each.line)!r}")
    if probe.stray_answers:
        ids = ", ".join(shown(each) for each in probe.stray_answers[:3])
        report.add("stray-answer", f"it answers what nobody has asked, with the id {ids}")
    if probe.repeated_answers:
        ids = ", ".join(shown(each) for each in probe.repeated_answers[:3])
        report.add("repeated-answer", f"it answers more than once, with the id {ids}")
    if probe.requests_received and probe.era == "modern":
        asked = ", ".join(cut(each) for each in sorted(set(probe.requests_received)))
        report.add("asks-modern-client", f"it sends requests to a modern client: {asked}")


def spread_message(lines: list[bytes]) -> dict[str, Json] | None:
    """Find a message that was written in several lines, as indented JSON is."""
    text = "\n".join(each.decode("utf-8", "replace") for each in lines)
    begin = text.find("{")
    if begin < 0:
        return None
    try:
        found, end = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    is_message = isinstance(found, dict) and "jsonrpc" in found
    return found if is_message and "\n" in text[begin:end] else None


def server_of(info: Json) -> Server | None:
    """Who a server says it is, if it does."""
    match info:
        case {"name": str(name), "version": str(version)}:
            return Server(name, version)
    return None


# -- one by one --------------------------------------------------------------------------


@contextmanager
def _examined_in(report: Report, probe: Probe) -> Iterator[None]:
    """Keep in mind in which era something is found that is looked for in both."""
    report.era = probe.era
    try:
        yield
    finally:
        report.era = None


async def _check_ping(report: Report, probe: Probe) -> None:
    answer = await probe.send_request("ping")
    if _answered(report, probe, "ping", answer) and answer is not None and answer.result != {}:
        said = _said(answer) if answer.error is not None else shown(answer.result)
        report.add("bad-result", f"`ping` is answered with {said} instead of an empty result")


async def _check_lists(report: Report, probe: Probe, capabilities: dict[str, Json]) -> None:
    listed: list[str] = []
    for method, (capability, key) in _LISTS.items():
        if capability in capabilities:
            items = await _pages(report, probe, method, key)
            if items is not None:
                listed.append(method)
                report.offers[key] = len(items)
                check_descriptions(report, key, items)
        elif method != "resources/templates/list":
            await _check_undeclared(report, probe, method, capability, key)
    await _check_cursors(report, probe, listed)


async def _check_undeclared(
    report: Report, probe: Probe, method: str, capability: str, key: str
) -> None:
    answer = await probe.send_request(method)
    if answer is not None and isinstance(answer.result, dict) and answer.result.get(key):
        report.add(
            "undeclared", f"it has {key}, but does not declare the capability {capability!r}"
        )


async def _pages(report: Report, probe: Probe, method: str, key: str) -> list[Json] | None:
    """All pages of a list; `None` if it cannot be had."""
    items: list[Json] = []
    seen: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(_MOST_PAGES):
        answer = await probe.send_request(method, params)
        if not _answered(report, probe, method, answer) or answer is None:
            return None
        if answer.error is not None:
            severity: Severity | None = "note" if method == "resources/templates/list" else None
            what = f"`{method}` fails, although the capability is declared: {_said(answer)}"
            report.add("bad-list", what, severity=severity)
            return None
        page = answer.result.get(key) if isinstance(answer.result, dict) else None
        if not isinstance(page, list):
            report.add("bad-list", f"the result of `{method}` has no list {key!r}")
            return None
        if probe.era == "modern":
            _check_modern_result(report, method, answer.result)
        items += page
        cursor = answer.result.get("nextCursor")
        if cursor is None:
            return items
        if not isinstance(cursor, str):
            report.add("bad-list", f"`{method}`: nextCursor must be a string: {shown(cursor)}")
            return items
        if cursor in seen:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    report.add("endless-list", f"`{method}` has no last page")
    return items


async def _check_cursors(report: Report, probe: Probe, methods: list[str]) -> None:
    """Check that a cursor that is none is refused ("Pagination: Error Handling")."""
    careless = []
    for method in methods:
        answer = await probe.send_request(method, {"cursor": _NO_SUCH})
        what = f"`{method}` with an unknown cursor"
        if not _answered(report, probe, what, answer) or answer is None:
            continue
        if answer.error is None:
            careless.append(method)
        elif answer.code != INVALID_PARAMS:
            said = f"{what} is answered with {_said(answer)}, not -32602"
            report.add("wrong-error", said, severity="note")
    if careless:
        report.add("ignored-cursor", f"any cursor will do for {', '.join(careless)}")


async def _check_refusals(report: Report, probe: Probe, capabilities: dict[str, Json]) -> None:
    """Check that what cannot be done is refused with the right error."""
    for each in _REFUSALS:
        if each.capability is None or each.capability in capabilities:
            await _check_refusal(report, probe, each)


async def _check_refusal(report: Report, probe: Probe, refusal: _Refusal) -> Answer | None:
    """Check that a request is refused; return the answer, if there is one."""
    what = refusal.what
    answer = await probe.send_request(refusal.method, refusal.params)
    if not _answered(report, probe, what, answer) or answer is None:
        return None
    if answer.code == HEADER_MISMATCH:  # over HTTP, the name would be a header
        return answer
    expected = {refusal.code, refusal.legacy_code if probe.era == "legacy" else refusal.code}
    if isinstance(answer.result, dict) and answer.result.get("isError") is True:
        report.add("unknown-tool", f"{what} gives a result with isError")
    elif answer.error is None:
        said = f"{what} is answered with a result: {shown(answer.result)}"
        report.add("no-error", said, severity=refusal.answered)
    elif answer.code not in expected:
        said = f"{what} is answered with {_said(answer)}, not {refusal.code}"
        report.add("wrong-error", said, severity=refusal.severity)
    status = refusal.status if probe.era == "modern" else None
    if status is not None and answer.status not in (None, status):
        said = f"{what} is refused with HTTP status {answer.status}, not {status}"
        report.add("wrong-status", said)
    return answer


async def _check_meta(report: Report, probe: Probe) -> None:
    """Check what a modern server says to `_meta` that will not do (2026-07-28, "Overview")."""
    answer = await _check_refusal(report, probe, _OF_VERSION)
    error = answer.error if answer is not None and answer.code == _OF_VERSION.code else None
    data = (error.get("data") or {}) if isinstance(error, dict) else None
    if data is not None and not (
        isinstance(data, dict) and isinstance(data.get("supported"), list)
    ):
        report.add("wrong-error", "error -32022 does not say in data which versions it speaks")
    await _check_refusal(report, probe, _OF_META)


async def _check_robustness(report: Report, probe: Probe, sign_of_life: str) -> None:
    """Check that a server survives what is no message, or none that it knows, or a large one."""
    what = "a line that is no JSON" if probe.on_lines else "a body that is no JSON"
    reaction = await probe.send_malformed(b'{"jsonrpc":"2.0","method":', sign_of_life)
    answer = reaction.answer
    if not _survived(report, probe, what, reaction.alive):
        return
    if answer is None or (answer.error is None and answer.result is None):
        report.add("silent-on-bad-json", f"{what} is not answered")
    elif answer.code != PARSE_ERROR:
        said = f"{what} is answered with {_said(answer)}, not -32700"
        report.add("wrong-error", said, severity="note")
    await _check_bad_request(report, probe, sign_of_life)
    if probe.gone is not None:
        return
    await probe.send_notification(f"notifications/{_NO_SUCH}")
    alive = await probe.send_request(sign_of_life)
    if not _survived(report, probe, "an unknown notification", alive):
        return
    padding: dict[str, Json] = {"_meta": {f"{_NO_SUCH}/padding": "x" * _LARGE}}
    alive = await probe.send_request(sign_of_life, padding)
    what = f"a request of {_LARGE // 1000} kB"
    if alive is not None and (alive.error is not None or alive.status == 413):
        said = _said(alive) if alive.error is not None else f"HTTP status {alive.status}"
        report.add("large-request", f"{what} is refused: {said}")
    else:
        _survived(report, probe, what, alive)


async def _check_bad_request(report: Report, probe: Probe, sign_of_life: str) -> None:
    """Check that a request is answered, whatever is wrong with it (JSON-RPC 2.0, "Response")."""
    id = probe.next_id()
    line = encode({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": [1]})[:-1]
    what = "a request whose params are an array"
    reaction = await probe.send_malformed(line, sign_of_life, id)
    answer = reaction.answer
    if not _survived(report, probe, what, reaction.alive):
        return
    if answer is None or (answer.error is None and answer.result is None):
        report.add("silent-on-bad-request", f"{what} is not answered")


def _survived(report: Report, probe: Probe, what: str, alive: Answer | None) -> bool:
    """Whether a server still answers, after something that it should cope with."""
    if alive is not None and (alive.error is not None or alive.result is not None):
        return True
    if probe.gone is not None:
        report.add("dies", f"after {what}, it {probe.gone}")
    else:
        report.add("no-answer", f"after {what}, it answers no request")
    return False


def _check_modern_result(report: Report, method: str, result: dict[str, Json]) -> None:
    if result.get("resultType") != "complete":
        kind = result.get("resultType")
        what = "no resultType" if kind is None else f"the resultType {shown(kind)}"
        report.add("bad-result", f"the result of `{method}` has {what}")
    ttl = result.get("ttlMs")
    good = isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl >= 0
    if not (good and result.get("cacheScope") in ("public", "private")):
        report.add("bad-result", f"the result of `{method}` needs ttlMs and cacheScope")


def _answered(report: Report, probe: Probe, what: str, answer: Answer | None) -> bool:
    what = what if " " in what else f"`{what}`"
    if answer is not None and answer.error is not None and not _is_error(answer.error):
        report.add("bad-error", f"{what} is answered with the error {shown(answer.error)}")
    if answer is not None and (answer.error is not None or answer.result is not None):
        return True
    if answer is not None:
        report.add("no-answer", f"{what}: the reply (HTTP status {answer.status}) has no answer")
    elif probe.gone is not None:
        report.add("dies", f"{what}: it {probe.gone} instead of answering")
    else:
        report.add("no-answer", f"{what}: {_silence(probe.timeouts.answer)}")
    return False


def _is_error(error: Json) -> bool:
    match error:
        case {"code": bool()}:
            return False
        case {"code": int(), "message": str()}:
            return True
    return False


def _silence(seconds: float) -> str:
    return f"no answer within {seconds:.3g} s"


def _said(answer: Answer) -> str:
    code = "an error without a code" if answer.code is None else shown(answer.code)
    return f"{code} ({cut(answer.message)})" if answer.message else code
