"""A server that does wrong: it speaks a legacy revision, and its one tool has one fault.

Arguments: the fault, and a file for the ids of its process and of a child's, for those that stay.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

fault, file = sys.argv[1:]

if fault == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(
        ["sleep", "300"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    Path(file).write_text(f"{os.getpid()} {child.pid}")


def result(method: str) -> dict[str, object]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
    return {"content": [{"type": "text", "text": "done"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "tools/call" and fault == "exits":
        sys.exit(3)
    if method == "tools/call" and fault == "is silent":
        continue
    if fault == "prints":
        print("this is no message")
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method in ("initialize", "tools/list", "tools/call"):
        answer["result"] = result(method)
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)

if fault == "stays":
    time.sleep(300)
