"""A small server of both eras that does just one thing wrong, or nothing: `python faulty.py FAULT`.

It needs no package, so that it starts at once.
"""

import json
import os
import signal
import subprocess
import sys
import time

FAULT = sys.argv[1]
NAME = sys.argv[2] if len(sys.argv) > 2 else "faulty"
LEGACY = ["2025-11-25", "2025-06-18"]
MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

SCHEMAS = {
    "invalid-schema": {"type": "object", "properties": {"a": {"type": "nothing"}}},
    "schema-of-no-object": {"type": "string"},
    "unknown-required": {"type": "object", "properties": {}, "required": ["a"]},
    "doubtful-schema": {
        "type": "object",
        "properties": {"a": {"$ref": "https://example.com/a.json", "description": "A."}},
    },
    "undescribed-arguments": {"type": "object", "properties": {"a": {"type": "string"}}},
    "bad-header": {
        "type": "object",
        "properties": {"a": {"type": "string", "x-mcp-header": "a b", "description": "A."}},
    },
}
GOOD = {"type": "object", "properties": {"a": {"type": "string", "description": "An a."}}}


def tools():
    tool = {"name": "echo", "description": "Echo.", "inputSchema": SCHEMAS.get(FAULT, GOOD)}
    if FAULT == "no-description":
        del tool["description"]
    if FAULT == "tool-name":
        tool["name"] = "an echo, and more"
    if FAULT == "no-schema":
        del tool["inputSchema"]
    if FAULT == "contradiction":
        tool["annotations"] = {"readOnlyHint": True, "destructiveHint": True}
    more = [dict(tool)] if FAULT == "duplicate" else []
    return [tool, *more, {**tool, "name": "second", "description": "Another one."}]


def send(message):
    if FAULT == "no-version-of-jsonrpc":
        del message["jsonrpc"]
    if FAULT == "not-a-number" and "tools" in message.get("result", {}):
        message["result"]["_meta"] = {"faulty/share": float("nan")}
    text = json.dumps(message, indent=2 if FAULT == "several-lines" else None)
    mark = "\ufeff" if FAULT == "byte-order-mark" and "tools" in message.get("result", {}) else ""
    sys.stdout.write(f"{mark}{text}\n")
    sys.stdout.flush()


def error(code, message, data=None):
    return {"error": {"code": code, "message": message, **({"data": data} if data else {})}}


def result(value, modern, cached=False):
    if modern:
        value = {**value, "resultType": "complete"}
        if cached:
            value |= {"ttlMs": 0, "cacheScope": "private"}
    if modern and FAULT == "no-result-type":
        del value["resultType"]
    if modern and FAULT == "no-hints":
        value.pop("ttlMs", None)
    return {"result": value}


def listed(params, modern):
    cursor = params.get("cursor")
    both = tools()
    if FAULT == "bad-list":
        return result({"tool": both}, modern, cached=True)
    if FAULT == "failing-list":
        return error(-32603, "Internal error")
    if FAULT == "endless-list":
        return result({"tools": both[:1], "nextCursor": "again"}, modern, cached=True)
    if cursor is None or FAULT == "ignored-cursor":
        more = {} if cursor is not None else {"nextCursor": "page 2"}
        return result({"tools": both[:-1], **more}, modern, cached=True)
    if cursor != "page 2":
        return error(-32602, "Invalid cursor")
    return result({"tools": both[-1:]}, modern, cached=True)


def capable():
    more = ("unknown-prompt", "takes-any-prompt", "unknown-resource", "old-unknown-resource")
    return {"tools": {}, **({"prompts": {}, "resources": {}} if FAULT in more else {})}


def initialize(params):
    version = params["protocolVersion"]
    if FAULT == "refuses-versions" and version not in LEGACY:
        return error(-32602, "Unsupported protocol version")
    if FAULT != "echoes-versions" and version not in LEGACY:
        version = LEGACY[0]
    info = {"name": "faulty", "version": "" if FAULT == "empty-version" else "1"}
    if FAULT == "no-server-info":
        info = {"name": "faulty"}
    capabilities = {} if FAULT == "undeclared" else capable()
    return {
        "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    }


def discover():
    value = {
        "supportedVersions": [MODERN],
        "capabilities": capable(),
        "_meta": {SERVER_KEY: {"name": "faulty", "version": "1"}},
    }
    return result(value, True, cached=True)


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if not isinstance(params, dict):
        return error(-32602, "Invalid params")
    meta = params.get("_meta") or {}
    modern = VERSION_KEY in meta
    if modern and FAULT in ("legacy-only", "dies-at-discover"):
        if FAULT == "dies-at-discover":
            sys.exit("Error: what is server/discover?")
        return error(-32601, "Method not found")
    if modern and meta[VERSION_KEY] != MODERN and FAULT != "takes-any-version":
        supported = {} if FAULT == "no-versions-told" else {"supported": [MODERN]}
        return error(-32022, "Unsupported protocol version", {"requested": "?", **supported})
    if modern and CAPABILITIES_KEY not in meta and FAULT != "takes-any-meta":
        return error(-32602, "No capabilities")
    if method == "server/discover" and modern:
        return discover()
    if method == "initialize" and FAULT != "modern-only":
        return initialize(params)
    if method == "ping":
        return {"result": {"pong": 1} if FAULT == "ping" else {}}
    if method == "tools/list":
        return listed(params, modern)
    if method == "prompts/get" and FAULT == "takes-any-prompt":
        return result({"messages": []}, modern)
    if method in ("prompts/get", "resources/read") and "unknown" in FAULT:
        codes = {"unknown-prompt": 0, "unknown-resource": -32603, "old-unknown-resource": -32002}
        return error(codes[FAULT] if method.startswith(FAULT.split("-")[-1]) else -32602, "None")
    if method in ("prompts/list", "resources/list", "resources/templates/list"):
        if "cursor" in params:
            return error(-32602, "Invalid cursor")
        key = "resourceTemplates" if "templates" in method else method.partition("/")[0]
        return result({key: []}, modern, cached=True)
    if method == "tools/call":
        if FAULT == "nameless-call" and "name" not in params:
            return error(-32603, "Internal error")
        if FAULT == "unknown-tool-error":
            said = {"content": [{"type": "text", "text": "no"}], "isError": True}
            return result(said, modern)
        if FAULT == "takes-any-tool":
            return result({"content": []}, modern)
        return error(-32602, "Unknown tool")
    if FAULT == "takes-any-method":
        return result({}, modern)
    return error(-32602 if FAULT == "wrong-code" else -32601, "Method not found")


def main():
    if FAULT == "crash":
        raise RuntimeError("no database")
    if FAULT == "mute":
        time.sleep(60)
    if FAULT == "ignores-signals":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "noise":
        print("Server is ready!")
        print("Really.", flush=True)
    if FAULT == "slow-start":
        time.sleep(0.3)
    if FAULT == "slow-first-start" and not os.path.exists(NAME):
        open(NAME, "w").close()
        time.sleep(0.6)
    if FAULT in ("leaves-a-child", "leaves-a-daemon"):
        child = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep(60) # of {NAME}"]
        null = subprocess.DEVNULL
        away = FAULT == "leaves-a-daemon"
        subprocess.Popen(child, stdin=null, stdout=null, stderr=null, start_new_session=away)
    for line in sys.stdin:
        try:
            request = json.loads(line)
        except ValueError:
            if FAULT == "dies-of-bad-json":
                raise
            if FAULT != "silent-on-bad-json":
                send({"jsonrpc": "2.0", "id": "", **error(-32700, "Parse error")})
            continue
        if "id" not in request or "method" not in request:
            if FAULT == "dies-of-notifications" and "such" in request.get("method", ""):
                sys.exit(3)
            continue
        if FAULT == "dies-of-large-requests" and len(line) > 65536:
            sys.exit(5)
        if FAULT == "refuses-large-requests" and len(line) > 65536:
            send({"jsonrpc": "2.0", "id": request["id"], **error(-32600, "Too long")})
            continue
        if FAULT == "silent-on-bad-request" and isinstance(request.get("params"), list):
            continue
        if FAULT == "silent-on-discover" and request["method"] == "server/discover":
            continue
        if FAULT == "late" and request["method"] == "ping":
            time.sleep(0.4)
        if FAULT == "silent-on-ping" and request["method"] == "ping":
            continue
        if FAULT == "asks" and request["method"] == "tools/list":
            send({"jsonrpc": "2.0", "id": 99, "method": "roots/list"})
        id = request["id"]
        if FAULT == "changes-ids" and isinstance(id, int) and id > 1:
            id = str(id)
        reply = {"jsonrpc": "2.0", "id": id, **answer(request)}
        if FAULT == "bad-error" and "error" in reply:
            reply["error"] = "no"
        send(reply)
        if FAULT == "twice":
            send(reply)
    if FAULT in ("no-exit", "ignores-signals"):
        time.sleep(60)
    if FAULT == "slow-exit":
        time.sleep(0.5)
    if FAULT == "exit-status":
        sys.exit(4)


main()
