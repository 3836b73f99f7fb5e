"""The commands of `trio-mcp`: where each is, what it does, and how it is typed."""

from __future__ import annotations

from typing import Final

GROUPS: Final = {
    "Servers": {
        "serve": (
            "serve:serve",
            "Serve a registry on stdin and stdout, or over HTTP.",
            "server.py",
        ),
        "proxy": (
            "proxy:proxy",
            "Serve another server, by another transport.",
            "https://example.com/mcp",
        ),
        "gateway": ("proxy:gateway", "Serve all servers of an mcp.json as one.", "mcp.json"),
        "openapi": (
            "openapi:openapi",
            "Serve what an OpenAPI document describes.",
            "openapi.json",
        ),
        "new": ("new.command:new", "Write a starter project.", "my-server"),
        "port": (
            "port.command:port",
            "Report what a server for FastMCP or the SDK needs here.",
            "server.py",
        ),
        "install": (
            "install.command:install",
            "Add a server to the configuration of a host.",
            "server.py --host claude-desktop",
        ),
        "uninstall": (
            "install.command:uninstall",
            "Remove a server from the configuration of a host.",
            "my-server --host claude-desktop",
        ),
        "bundle": (
            "packaging.bundle:bundle",
            "Write a bundle that hosts install by a click.",
            "server.py",
        ),
        "publish": (
            "packaging.publish:publish",
            "Write server.json for the official registry.",
            "server.py --name io.github.me/my-server",
        ),
    },
    "Using a server": {
        "tools": ("listing:tools", "Show the tools of a server.", "server.py"),
        "call": ("calling:call", "Call a tool.", "server.py TOOL KEY=VALUE"),
        "tasks": (
            "calling:tasks",
            "Show, await or cancel a task that was started with call --task.",
            "server.py get ID",
        ),
        "resources": ("listing:resources", "Show the resources of a server.", "server.py"),
        "read": ("calling:read", "Read a resource.", "server.py URI"),
        "prompts": ("listing:prompts", "Show the prompts of a server.", "server.py"),
        "prompt": (
            "calling:prompt",
            "Get the messages of a prompt.",
            "server.py PROMPT KEY=VALUE",
        ),
        "inspect": (
            "inspecting.command:inspect",
            "Try a server out in an interactive session.",
            "server.py",
        ),
    },
    "Logging in": {
        "login": (
            "login.commands:login",
            "Log in to a server that wants to know who you are.",
            "https://example.com/mcp",
        ),
        "logout": ("login.commands:logout", "Forget that login.", "https://example.com/mcp"),
        "whoami": ("login.commands:whoami", "Show which logins are kept.", ""),
    },
    "Examining a server": {
        "doctor": (
            "doctor.command:doctor",
            "Examine a server against the protocol.",
            "server.py",
        ),
        "bench": ("bench.command:bench", "Measure how fast a server is.", "server.py"),
    },
}
"""By group and name: the command's function, imported when needed, what it does, and its words."""

EXAMPLES: Final = {
    name: example for several in GROUPS.values() for name, (_, _, example) in several.items()
}
"""By command, the words that may follow it; `server.py` stands for a target."""

TAKE_ENVIRONMENT: Final = {*GROUPS["Using a server"], *GROUPS["Examining a server"], "login"}
"""The commands that use the environment's target if they have none."""
