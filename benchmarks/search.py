"""Public servers behind one gateway, with and without tool search: what a model reads, and finds.

    python -m benchmarks.search FOLDER [--record docs/measured/search.json]

The servers are installed into the folder, with npm and pip, unless they are there. None is given
credentials: it is only asked for its tools. What their authors wrote about the tools is theirs, so
the record has figures and names of packages alone. A token is counted as four bytes of the list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import trio

from trio_mcp import Client, connect
from trio_mcp.compose import open_gateway, searchable
from trio_mcp.wire.jsonrpc import encode

NPM: Final[dict[str, tuple[str, list[str], dict[str, str]]]] = {
    "@modelcontextprotocol/server-everything": ("mcp-server-everything", [], {}),
    "@modelcontextprotocol/server-filesystem": ("mcp-server-filesystem", ["."], {}),
    "@modelcontextprotocol/server-memory": ("mcp-server-memory", [], {}),
    "@modelcontextprotocol/server-sequential-thinking": ("mcp-server-sequential-thinking", [], {}),
    "@modelcontextprotocol/server-github": ("mcp-server-github", [], {}),
    "@modelcontextprotocol/server-gitlab": (
        "mcp-server-gitlab",
        [],
        {"GITLAB_PERSONAL_ACCESS_TOKEN": "none"},
    ),
    "@modelcontextprotocol/server-slack": (
        "mcp-server-slack",
        [],
        {"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "none"},
    ),
    "@modelcontextprotocol/server-google-maps": (
        "mcp-server-google-maps",
        [],
        {"GOOGLE_MAPS_API_KEY": "none"},
    ),
    "@modelcontextprotocol/server-brave-search": (
        "mcp-server-brave-search",
        [],
        {"BRAVE_API_KEY": "none"},
    ),
    "@modelcontextprotocol/server-puppeteer": ("mcp-server-puppeteer", [], {}),
    "@modelcontextprotocol/server-postgres": (
        "mcp-server-postgres",
        ["postgresql://127.0.0.1:1/none"],
        {},
    ),
    "@playwright/mcp": ("playwright-mcp", [], {}),
    "@notionhq/notion-mcp-server": ("notion-mcp-server", [], {"NOTION_TOKEN": "none"}),
    "chrome-devtools-mcp": ("chrome-devtools-mcp", [], {}),
    "@upstash/context7-mcp": ("context7-mcp", [], {}),
    "firecrawl-mcp": ("firecrawl-mcp", [], {"FIRECRAWL_API_KEY": "none"}),
    "mongodb-mcp-server": (
        "mongodb-mcp-server",
        [],
        {
            "MDB_MCP_TELEMETRY": "disabled",
            "MDB_MCP_CONNECTION_STRING": "mongodb://127.0.0.1:1/none",
        },
    ),
    "mcp-server-kubernetes": ("mcp-server-kubernetes", [], {}),
    "tavily-mcp": ("tavily-mcp", [], {"TAVILY_API_KEY": "none"}),
}
"""By package: its command, arguments, and variables without which it does not start."""

PYPI: Final = ("mcp-server-git", "mcp-server-fetch", "mcp-server-time")

PREFIXES: Final = {
    "@modelcontextprotocol/server-google-maps": "maps",
    "@modelcontextprotocol/server-brave-search": "brave",
    "@modelcontextprotocol/server-sequential-thinking": "thinking",
    "@playwright/mcp": "playwright",
    "@notionhq/notion-mcp-server": "notion",
    "chrome-devtools-mcp": "devtools",
    "@upstash/context7-mcp": "context7",
    "firecrawl-mcp": "firecrawl",
    "mongodb-mcp-server": "mongodb",
    "tavily-mcp": "tavily",
}
"""What a server is called in the gateway, unless that is the end of its package's name."""

QUESTIONS: Final[dict[str, list[str]]] = {
    "open a bug report in a GitHub repository": ["github_create_issue"],
    "merge a pull request": ["github_merge_pull_request"],
    "comment on a github issue": ["github_add_issue_comment"],
    "which files does this pull request change": ["github_get_pull_request_files"],
    "find code that uses a function across github": ["github_search_code"],
    "approve a PR or ask for changes": ["github_create_pull_request_review"],
    "has the CI passed for a pull request": ["github_get_pull_request_status"],
    "fork a gitlab project": ["gitlab_fork_repository"],
    "open a merge request": ["gitlab_create_merge_request"],
    "post a message to a slack channel": ["slack_slack_post_message"],
    "react to a message with an emoji": ["slack_slack_add_reaction"],
    "recent messages of a channel": ["slack_slack_get_channel_history"],
    "answer in a slack thread": ["slack_slack_reply_to_thread"],
    "driving directions between two places": ["maps_maps_directions"],
    "coordinates of an address": ["maps_maps_geocode"],
    "what address is at this latitude and longitude": ["maps_maps_reverse_geocode"],
    "how high above sea level is a location": ["maps_maps_elevation"],
    "travel times between many origins and destinations": ["maps_maps_distance_matrix"],
    "restaurants nearby": ["brave_brave_local_search", "maps_maps_search_places"],
    "search the web": [
        "brave_brave_web_search",
        "tavily_tavily_search",
        "firecrawl_firecrawl_search",
    ],
    "download a web page as markdown": ["fetch_fetch", "firecrawl_firecrawl_scrape"],
    "crawl a whole website": ["firecrawl_firecrawl_crawl", "tavily_tavily_crawl"],
    "watch a web page for changes and be notified": ["firecrawl_firecrawl_monitor_create"],
    "find scientific papers": ["firecrawl_firecrawl_research_search_papers"],
    "run an SQL query": ["postgres_query"],
    "read a text file from disk": ["filesystem_read_text_file", "filesystem_read_file"],
    "rename a file": ["filesystem_move_file"],
    "replace some lines in a file": ["filesystem_edit_file"],
    "make a new folder": ["filesystem_create_directory"],
    "when was a file last modified": ["filesystem_get_file_info"],
    "remember a fact about a person": [
        "memory_create_entities",
        "memory_add_observations",
    ],
    "forget an entity in the knowledge graph": ["memory_delete_entities"],
    "what time is it in Tokyo": ["time_get_current_time"],
    "convert a time to another timezone": ["time_convert_time"],
    "commit staged changes": ["git_git_commit"],
    "show the history of commits": ["git_git_log", "github_list_commits"],
    "switch to another branch": ["git_git_checkout"],
    "take a screenshot of the page": [
        "playwright_browser_take_screenshot",
        "puppeteer_puppeteer_screenshot",
        "devtools_take_screenshot",
    ],
    "fill in a form on a web page": [
        "playwright_browser_fill_form",
        "devtools_fill_form",
        "puppeteer_puppeteer_fill",
    ],
    "why is this page slow": [
        "devtools_performance_start_trace",
        "devtools_performance_analyze_insight",
        "devtools_lighthouse_audit",
    ],
    "javascript errors in the browser console": [
        "playwright_browser_console_messages",
        "devtools_list_console_messages",
        "devtools_get_console_message",
    ],
    "add a page to a Notion workspace": ["notion_API-post-page"],
    "leave a comment on a Notion page": ["notion_API-create-a-comment"],
    "documentation of a library": ["context7_query-docs", "context7_resolve-library-id"],
    "insert documents into a collection": ["mongodb_insert-many"],
    "drop a mongo database": ["mongodb_drop-database"],
    "how large is a collection": ["mongodb_collection-storage-size"],
    "logs of a pod": ["kubernetes_kubectl_logs"],
    "scale a deployment to five replicas": ["kubernetes_kubectl_scale"],
    "install a helm chart": ["kubernetes_install_helm_chart"],
}
"""What is looked for, and the tools that would do: any one of them counts. These were written down
before anything was ranked; do not change them to suit a ranking."""

ENOUGH: Final = 5


def prefix_of(package: str) -> str:
    return PREFIXES.get(package) or package.rpartition("server-")[2]


def install(folder: Path) -> None:
    """Install what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PUPPETEER_SKIP_DOWNLOAD": "1",
        "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
    }
    npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    missing = [each for each in NPM if not (folder / "node_modules" / each).exists()]
    if missing:
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run([*npm, *missing], cwd=folder, env=environment, check=True)
    if not (folder / "py").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "py"], check=True)
        pip = [str(folder / "py" / "bin" / "pip"), "install", "--quiet", *PYPI]
        subprocess.run(pip, check=True)


def configuration(folder: Path) -> dict[str, Any]:
    """Say how the servers are started, as `mcp.json` does."""
    programs = folder / "node_modules" / ".bin"
    servers = {
        prefix_of(package): {
            "command": str(programs / command),
            "args": [str(folder) if each == "." else each for each in arguments],
            "env": env,
        }
        for package, (command, arguments, env) in NPM.items()
    }
    python = {
        prefix_of(each): {"command": str(folder / "py" / "bin" / each), "args": []} for each in PYPI
    }
    return {"mcpServers": {**servers, **python}}


def versions(folder: Path) -> dict[str, str]:
    """Return the versions that are installed, by package."""
    found = {}
    for package in NPM:
        text = (folder / "node_modules" / package / "package.json").read_text()
        found[package] = json.loads(text)["version"]
    freeze = subprocess.run(
        [folder / "py" / "bin" / "pip", "freeze"], capture_output=True, text=True, check=True
    )
    lines = dict(line.split("==") for line in freeze.stdout.splitlines() if "==" in line)
    return {**found, **{package: lines[package] for package in PYPI}}


def tokens(*results: Any) -> int:
    return sum(len(encode(result)) for result in results) // 4


async def listed(client: Client) -> list[Any]:
    """All that a client has to show its model of the tools."""
    tools: list[Any] = (await client.request("tools/list", {}))["tools"]
    return tools


def rank_of(wanted: list[str], found: list[str]) -> int | None:
    """The first place of a tool that would do, from 1 on."""
    return next((place for place, name in enumerate(found, 1) if name in wanted), None)


def names_in(text: str) -> Iterator[str]:
    return (line.partition("(")[0] for line in text.splitlines() if not line.startswith(" "))


async def measure(folder: Path) -> dict[str, Any]:
    config = folder / "benchmark.json"
    config.write_text(json.dumps(configuration(folder)))
    async with open_gateway(config, wait=120) as gateway:
        there = [
            name for name, state in gateway.states.items() if type(state).__name__ == "Connected"
        ]
        async with connect(gateway.registry) as client:
            tools = await listed(client)
        front = searchable(gateway.registry)
        async with connect(front, tool_timeout=60) as client:
            few = await listed(client)
            ranks: dict[str, int | None] = {}
            answers = []
            for question, wanted in QUESTIONS.items():
                given = {"query": question, "limit": ENOUGH}
                text = (await client.call_tool("search_tools", given)).text
                ranks[question] = rank_of(wanted, list(names_in(text)))
                answers.append(len(text.encode()) / 4)
            begun = time.perf_counter()
            for question in QUESTIONS:
                await client.call_tool("search_tools", {"query": question})
            took = (time.perf_counter() - begun) / len(QUESTIONS)
    packages = {prefix_of(package): package for package in (*NPM, *PYPI)}
    installed = versions(folder)
    return {
        "servers": [
            {
                "package": packages[name],
                "version": installed[packages[name]],
                "tools": len(
                    mine := [each for each in tools if each["name"].startswith(f"{name}_")]
                ),
                "tokens": tokens(mine),
            }
            for name in there
        ],
        "tools": len(tools),
        "tokens_without": tokens(tools),
        "tokens_with": tokens(few),
        "tokens_of_an_answer": round(sum(answers) / len(answers)),
        "questions": len(QUESTIONS),
        "first": sum(rank == 1 for rank in ranks.values()),
        "among_five": sum(rank is not None for rank in ranks.values()),
        "missed": [question for question, rank in ranks.items() if rank is None],
        "milliseconds": round(took * 1000, 2),
    }


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the servers are, or are to be, installed")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    options = parser.parse_args()
    folder = options.folder.absolute()
    install(folder)
    figures = json.dumps(trio.run(measure, folder), indent=1)
    print(figures)
    if options.record:
        options.record.write_text(f"{figures}\n")


if __name__ == "__main__":
    main()
