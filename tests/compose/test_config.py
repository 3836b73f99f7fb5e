"""Reading `mcp.json`: what hosts write, and every mistake by file, server and key."""

import json
from pathlib import Path

import pytest

from trio_mcp import HttpOptions, Registry
from trio_mcp.compose.config import read_servers
from trio_mcp.errors import ConfigError
from trio_mcp.transports import ProcessOptions

pytestmark = pytest.mark.requirement("L3")


def test_a_file_is_read_as_hosts_read_it(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {
        "files": {
            "type": "stdio",
            "command": "${HOME}/bin/files",
            "args": ["--root", "${ROOT:-/srv}"],
            "env": {"TOKEN": "${env:SECRET}"},
            "cwd": "work",
            "timeout": 60000,
            "autoApprove": ["read"],
        },
        "web": {
            "type": "http",
            "url": "https://${HOST}/mcp",
            "headers": {"Authorization": "Bearer ${SECRET}"},
        },
        "off": {"command": "${NOT_SET}", "disabled": True},
    }
    path.write_text(json.dumps({"mcpServers": servers, "theme": "dark"}))
    env = {"HOME": "/home/ada", "SECRET": "s3cret", "HOST": "example.com", "ROOT": ""}
    files, web = read_servers(path, env)
    assert files.target == ["/home/ada/bin/files", "--root", "/srv"]
    run = files.process_options(ProcessOptions(env={"A": "b"}))
    assert run.env == {"A": "b", "TOKEN": "s3cret"}
    assert run.cwd == str(tmp_path / "work")
    assert files.timeout == 60
    assert web.target == "https://example.com/mcp"
    reached = web.http_options(HttpOptions(headers={"X-Team": "a"}))
    assert reached.headers == {"X-Team": "a", "Authorization": "Bearer s3cret"}


def test_a_mapping_may_have_targets_themselves() -> None:
    registry = Registry("own")
    found = read_servers(
        {"own": registry, "web": "http://localhost:1/mcp", "cmd": ["python", "-V"]}
    )
    assert [each.target for each in found] == [registry, "http://localhost:1/mcp", ["python", "-V"]]


COMMAND = {"command": "x"}


def test_what_cannot_be_a_configuration_is_told_what_can() -> None:
    for wrong in ([["python", "server.py"]], None, Registry("alone")):
        with pytest.raises(TypeError, match=r"path of a file such as mcp\.json, or a mapping"):
            read_servers(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"server 'a': url must be a URL .*; a command is a list"):
        read_servers({"a": "server.py"})


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"command": "x", "arg": []}, "arg is unknown; did you mean 'args'?"),
        ({**COMMAND, "args": "a b"}, "args must be a list, not a string"),
        ({**COMMAND, "args": ["a", 1]}, r"args\[1\] must be a string, not a number"),
        ({**COMMAND, "env": {"A": 1}}, "env.A must be a string, not a number"),
        ({**COMMAND, "headers": {}}, "headers is for a URL"),
        ({**COMMAND, "timeout": 0}, "timeout must be a number of milliseconds"),
        ({**COMMAND, "disabled": "no"}, "disabled must be true or false"),
        ({**COMMAND, "type": "http"}, '"http" needs a "url"'),
        ({**COMMAND, "type": "pigeon"}, "type must be one of stdio, http"),
        ({"url": "localhost:80"}, "url must be a URL"),
        ({"url": "http://a:99999"}, "url: the URL has port 99999"),
        ({"httpUrl": "http:///mcp"}, "httpUrl: the URL has no host"),
        ({"command": ""}, "command must not be empty"),
        ({"command": "x\0y"}, "command must not have a NUL"),
        ({**COMMAND, "env": {"A=B": "c"}}, "env has 'A=B', which no variable can be called"),
        ({**COMMAND, "env": {"": "c"}}, "env has '', which no variable can be called"),
        ({"url": "http://a", "cwd": "."}, "cwd is for a command"),
        ({"url": "http://a", "headers": {"A": "x\ny"}}, "headers: A has characters"),
        ({}, 'needs either a "command" or a "url"'),
        ({"command": "${NOBODY}"}, "command needs the variable NOBODY"),
        (7, "must be an object, not a number"),
    ],
)
def test_a_mistake_is_told_by_file_server_and_key(tmp_path: Path, entry: object, told: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"good": COMMAND, "bad one": entry}}))
    with pytest.raises(ConfigError, match=rf"mcp\.json: server 'bad one':.* {told}"):
        read_servers(path, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"mcpServers": {\n  "a": }}', r"not JSON \(line 2, column 8\)"),
        ("[]", "must hold an object, not an array"),
        ("{}", 'has no "mcpServers"'),
        ('{"mcpServers": []}', "mcpServers must be an object"),
        ('{"mcpServers": {"": {}}}', "needs a name"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"mcp\.json.*{told}"):
        read_servers(path)
