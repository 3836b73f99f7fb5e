"""A small server of both eras that does just one thing wrong, or nothing: `python faulty.py FAULT`.

It needs no package, so that it starts at once. What it does is a generator of steps, so that a
test can also have it in its own process, on its own clock.
"""

import json
import os
import signal
import subprocess
import sys
import time

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
ODD = {
    "prompts": [7, {"name": "p", "arguments": [5, {"name": [1]}]}],
    "resources": [5, {"name": "without a URI"}, {"uri": "odd://a"}],
    "resourceTemplates": [None],
}
GOOD = {"type": "object", "properties": {"a": {"type": "string", "description": "An a."}}}


def error(code, message, data=None):
    return {"error": {"code": code, "message": message, **({"data": data} if data else {})}}


END = object()
"""What `Faulty.steps` is told at the end of its input."""


class Faulty:
    """The server; without pipes, processes and signals."""

    def __init__(self, fault, name="faulty"):
        self.fault = fault
        self.name = name

    def steps(self):
        """What it does: a text to write, seconds to sleep, or `None` to be told the next line."""
        yield from self.begin()
        while (line := (yield)) is not END:
            try:
                request = json.loads(line)
            except ValueError:
                if self.fault == "dies-of-bad-json":
                    raise
                if self.fault != "silent-on-bad-json":
                    yield self.line({"jsonrpc": "2.0", "id": "", **error(-32700, "Parse error")})
                continue
            yield from self.react(request, len(line))
        yield from self.end()

    def begin(self):
        if self.fault == "crash":
            raise RuntimeError("no database")
        if self.fault == "says-nothing":
            sys.exit(0)
        if self.fault == "one-of-ours":
            sys.exit("trio-mcp: no database")
        if self.fault == "mute":
            yield 300.0
        if self.fault == "different-noise":
            yield f'{time.time_ns()} sending {{"jsonrpc": "2.0"}}\n'
        if self.fault == "noise":
            yield "Server is ready!\nReally.\n"
        if self.fault == "slow-start":
            yield 3.0
        if self.fault == "slow-first-start" and not os.path.exists(self.name):
            open(self.name, "w").close()
            yield 3.0

    def react(self, request, length):
        if "id" not in request or "method" not in request:
            if self.fault == "dies-of-notifications" and "such" in request.get("method", ""):
                sys.exit(3)
            return
        id, method = request["id"], request["method"]
        if self.fault == "dies-of-large-requests" and length > 65536:
            sys.exit(5)
        if self.fault == "refuses-large-requests" and length > 65536:
            yield self.line({"jsonrpc": "2.0", "id": id, **error(-32600, "Too long")})
            return
        if self.fault == "silent-on-bad-request" and isinstance(request.get("params"), list):
            return
        if self.fault == "silent-on-discover" and method == "server/discover":
            return
        if self.fault == "late" and method == "ping":
            yield 12.0
        if self.fault == "silent-on-ping" and method == "ping":
            return
        if self.fault == "asks" and method == "tools/list":
            yield self.line({"jsonrpc": "2.0", "id": 99, "method": "roots/list"})
        if self.fault == "changes-ids" and isinstance(id, int) and id > 1:
            id = str(id)
        reply = {"jsonrpc": "2.0", "id": id, **self.answer(request)}
        if self.fault == "bad-error" and "error" in reply:
            reply["error"] = "no"
        yield self.line(reply)
        if self.fault == "does-not-read" and method in ("ping", "server/discover"):
            for number in range(5000):
                yield self.line({"jsonrpc": "2.0", "id": f"q{number}", "method": "roots/list"})
            yield 12.0
        if self.fault == "twice":
            yield self.line(reply)

    def end(self):
        if self.fault in ("no-exit", "ignores-signals"):
            yield 60.0
        if self.fault == "slow-exit":
            yield 3.0
        if self.fault == "exit-status":
            sys.exit(4)

    def tools(self):
        tool = {
            "name": "echo",
            "description": "Echo.",
            "inputSchema": SCHEMAS.get(self.fault, GOOD),
        }
        if self.fault == "no-description":
            del tool["description"]
        if self.fault == "tool-name":
            tool["name"] = "an echo, and more"
        if self.fault == "no-schema":
            del tool["inputSchema"]
        if self.fault == "contradiction":
            tool["annotations"] = {"readOnlyHint": True, "destructiveHint": True}
        more = [dict(tool)] if self.fault == "duplicate" else []
        return [tool, *more, {**tool, "name": "second", "description": "Another one."}]

    def line(self, message):
        if self.fault == "no-version-of-jsonrpc":
            del message["jsonrpc"]
        if self.fault == "not-a-number" and "tools" in message.get("result", {}):
            message["result"]["_meta"] = {"faulty/share": float("nan")}
        text = json.dumps(message, indent=2 if self.fault == "several-lines" else None)
        mark = (
            "\ufeff"
            if self.fault == "byte-order-mark" and "tools" in message.get("result", {})
            else ""
        )
        return f"{mark}{text}\n"

    def result(self, value, modern, cached=False):
        if modern:
            value = {**value, "resultType": "complete"}
            if cached:
                value |= {"ttlMs": 0, "cacheScope": "private"}
        if modern and self.fault == "no-result-type":
            del value["resultType"]
        if modern and self.fault == "no-hints":
            value.pop("ttlMs", None)
        return {"result": value}

    def listed(self, params, modern):
        cursor = params.get("cursor")
        both = self.tools()
        if self.fault == "bad-list":
            return self.result({"tool": both}, modern, cached=True)
        if self.fault == "failing-list":
            return error(-32603, "Internal error")
        if self.fault == "endless-list":
            return self.result({"tools": both[:1], "nextCursor": "again"}, modern, cached=True)
        if cursor is None or self.fault == "ignored-cursor":
            more = {} if cursor is not None else {"nextCursor": "page 2"}
            return self.result({"tools": both[:-1], **more}, modern, cached=True)
        if cursor != "page 2":
            return error(-32602, "Invalid cursor")
        return self.result({"tools": both[-1:]}, modern, cached=True)

    def capable(self):
        more = (
            "odd-values",
            "unknown-prompt",
            "takes-any-prompt",
            "unknown-resource",
            "old-unknown-resource",
        )
        return {"tools": {}, **({"prompts": {}, "resources": {}} if self.fault in more else {})}

    def initialize(self, params):
        version = params["protocolVersion"]
        if self.fault == "refuses-versions" and version not in LEGACY:
            return error(-32602, "Unsupported protocol version")
        if self.fault != "echoes-versions" and version not in LEGACY:
            version = LEGACY[0]
        info = {"name": "faulty", "version": "" if self.fault == "empty-version" else "1"}
        if self.fault == "no-server-info":
            info = {"name": "faulty"}
        if self.fault == "empty-handshake":
            return {"result": {}}
        capabilities = {} if self.fault == "undeclared" else self.capable()
        return {
            "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        }

    def discover(self):
        value = {
            "supportedVersions": [MODERN],
            "capabilities": self.capable(),
            "_meta": {SERVER_KEY: {"name": "faulty", "version": "1"}},
        }
        return self.result(value, True, cached=True)

    def answer(self, request):
        method, params = request["method"], request.get("params") or {}
        if not isinstance(params, dict):
            return error(-32602, "Invalid params")
        meta = params.get("_meta") or {}
        modern = VERSION_KEY in meta
        if modern and self.fault in ("legacy-only", "dies-at-discover"):
            if self.fault == "dies-at-discover":
                sys.exit("Error: what is server/discover?")
            return error(-32601, "Method not found")
        if modern and meta[VERSION_KEY] != MODERN and self.fault != "takes-any-version":
            supported = {} if self.fault == "no-versions-told" else {"supported": [MODERN]}
            return error(-32022, "Unsupported protocol version", {"requested": "?", **supported})
        if modern and CAPABILITIES_KEY not in meta and self.fault != "takes-any-meta":
            return error(-32602, "No capabilities")
        if method == "server/discover" and modern:
            return self.discover()
        if method == "initialize" and self.fault != "modern-only":
            return self.initialize(params)
        if method == "ping":
            return {"result": {"pong": 1} if self.fault == "ping" else {}}
        if method == "tools/list":
            return self.listed(params, modern)
        if method == "prompts/get" and self.fault == "takes-any-prompt":
            return self.result({"messages": []}, modern)
        if method == "prompts/get" and self.fault == "odd-values":
            good = {"role": "user", "content": {"type": "text", "text": "Hello."}}
            return self.result({"messages": ["text", good]}, modern)
        if method == "resources/read" and self.fault == "odd-values":
            return error(-32602, "None", {"uri": params["uri"]})
        if method in ("prompts/get", "resources/read") and "unknown" in self.fault:
            codes = {
                "unknown-prompt": 0,
                "unknown-resource": -32603,
                "old-unknown-resource": -32002,
            }
            return error(
                codes[self.fault] if method.startswith(self.fault.split("-")[-1]) else -32602,
                "None",
            )
        if method in ("prompts/list", "resources/list", "resources/templates/list"):
            if "cursor" in params:
                return error(-32602, "Invalid cursor")
            key = "resourceTemplates" if "templates" in method else method.partition("/")[0]
            items = ODD[key] if self.fault == "odd-values" else []
            return self.result({key: items}, modern, cached=True)
        if method == "tools/call":
            if self.fault == "nameless-call" and "name" not in params:
                return error(-32603, "Internal error")
            if self.fault == "unknown-tool-error":
                said = {"content": [{"type": "text", "text": "no"}], "isError": True}
                return self.result(said, modern)
            if self.fault == "takes-any-tool":
                return self.result({"content": []}, modern)
            return error(-32602, "Unknown tool")
        if self.fault == "takes-any-method":
            return self.result({}, modern)
        return error(-32602 if self.fault == "wrong-code" else -32601, "Method not found")


def leave(name, *, away):
    """Start a process that outlives this one."""
    child = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep(60) # of {name}"]
    null = subprocess.DEVNULL
    subprocess.Popen(child, stdin=null, stdout=null, stderr=null, start_new_session=away)


def main(fault, name="faulty"):
    if fault == "ignores-signals":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault in ("leaves-a-child", "leaves-a-daemon"):
        leave(name, away=fault == "leaves-a-daemon")
    steps = Faulty(fault, name).steps()
    step = next(steps, END)
    while step is not END:
        told = None
        if step is None:
            told = sys.stdin.readline() or END
        elif isinstance(step, str):
            sys.stdout.write(step)
            sys.stdout.flush()
        else:
            time.sleep(step)
        try:
            step = steps.send(told)
        except StopIteration:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
