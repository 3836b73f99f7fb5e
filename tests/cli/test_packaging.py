"""`trio-mcp bundle` and `trio-mcp publish`: what others get, and what is refused."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import CommandLine
from tests.interop.packages import FOLDER, UV
from tests.support.processes import ENVIRONMENT
from trio_mcp import connect
from trio_mcp.transports.process import ProcessOptions

NAME = "io.github.ada/weather-desk"


@pytest.fixture
def project(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A new project, in which the command line runs, as a release of trio-mcp writes it."""
    assert cli("new", "weather-desk").status == 0
    monkeypatch.chdir(tmp_path / "weather-desk")
    about = tmp_path / "weather-desk" / "pyproject.toml"
    about.write_text(re.sub(r"trio-mcp @ [^\"]+", "trio-mcp", about.read_text()))
    return tmp_path / "weather-desk"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def names_in(bundle: Path) -> set[str]:
    with zipfile.ZipFile(bundle) as archive:
        return set(archive.namelist())


def manifest_of(bundle: Path) -> Any:
    with zipfile.ZipFile(bundle) as archive:
        return json.loads(archive.read("manifest.json"))


# -- bundles ---------------------------------------------------------------------------------


@pytest.mark.requirement("K6")
async def test_a_bundle_serves_wherever_it_is_unpacked(
    cli: CommandLine, project: Path, tmp_path: Path
) -> None:
    done = cli("bundle", "weather_desk.py", "--author", "Ada")
    assert (done.status, done.out) == (0, "")
    bundle = project / "weather-desk-0.1.0.mcpb"
    unpacked = tmp_path / "elsewhere" / "unpacked"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(unpacked)
    manifest = json.loads((unpacked / "manifest.json").read_text())
    assert manifest["name"] == "weather-desk"
    assert manifest["version"] == "0.1.0"
    assert manifest["author"] == {"name": "Ada"}
    assert [each["name"] for each in manifest["tools"]] == ["greet"]
    start = manifest["server"]["mcp_config"]
    assert start["args"] == ["run", "--directory", "${__dirname}", "mcpb_server.py"]
    for each in project.rglob("*.py"):
        each.unlink()  # nothing of it is needed any more
    command = [sys.executable, str(unpacked / start["args"][-1])]
    options = ProcessOptions(env=ENVIRONMENT, cwd="/")
    async with connect(command, process_options=options) as client:
        result = await client.call_tool("greet", {"name": "Ada", "language": "de"})
    assert result.text == "Guten Tag, Ada!"


@pytest.mark.long
@pytest.mark.needs("uv")
@pytest.mark.requirement("K6")
async def test_a_bundle_starts_as_its_manifest_says(
    cli: CommandLine, project: Path, tmp_path: Path
) -> None:
    """A host puts the folder and the settings into the command of the manifest, and runs that."""
    change(project / "weather_desk.py", "{GREETINGS[language]}", "{os.environ['HELLO_WORD']}")
    change(project / "weather_desk.py", "import trio\n", "import os\nimport trio\n")
    words = ["--author", "Ada", "--setting", "HELLO_WORD", "-o", "x.mcpb"]
    assert cli("bundle", "weather_desk.py", *words).status == 0
    unpacked = tmp_path / "elsewhere" / "un packed"
    with zipfile.ZipFile("x.mcpb") as archive:
        archive.extractall(unpacked)
    known = {"__dirname": str(unpacked), "user_config.hello_word": "Salut"}

    def filled(text: str) -> str:
        for name, value in known.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    start = manifest_of(Path("x.mcpb"))["server"]["mcp_config"]
    assert start["command"] == "uv"
    command = [str(UV.python.with_name("uv")), *map(filled, start["args"])]
    # The packages are those of this environment: none of ours is on the index yet.
    ours = {"UV_PROJECT_ENVIRONMENT": sys.prefix, "UV_NO_SYNC": "1", "UV_OFFLINE": "1"}
    settings = {name: filled(value) for name, value in start["env"].items()}
    options = ProcessOptions(env={**ENVIRONMENT, **ours, **settings}, cwd="/")
    async with connect(command, process_options=options) as client:
        assert client.server_info is not None
        assert client.server_info.name == "weather-desk"
        assert (await client.call_tool("greet", {"name": "Ada"})).text == "Salut, Ada!"


@pytest.mark.parametrize("target", ["src/desk/main.py:make", "desk.main:make", "desk.main:shop"])
async def test_registries_in_packages_and_from_functions(
    target: str, cli: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = project / "src" / "desk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text(
        "from trio_mcp import Registry\nshop = Registry('shop')\ndef make(): return shop\n"
        "@shop.tool\nasync def one() -> int: return 1\n"
    )
    monkeypatch.syspath_prepend(str(project / "src"))
    assert cli("bundle", target, "--author", "Ada", "-o", "x.mcpb").status == 0
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile("x.mcpb") as archive:
        archive.extractall(unpacked)
    options = ProcessOptions(env=ENVIRONMENT, cwd="/")
    command = [sys.executable, str(unpacked / "mcpb_server.py")]
    async with connect(command, process_options=options) as client:
        assert (await client.call_tool("one")).text == "1"


def test_what_a_bundle_leaves_out(cli: CommandLine, project: Path) -> None:
    for name in (
        ".env",
        ".git/config",
        "__pycache__/x.pyc",
        "dist/x.whl",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        "node_modules/x.js",
        "old.mcpb",
        "notes/secret.txt",
        "notes/plan.md",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (project / "link.txt").symlink_to("/etc/hostname")
    (project / ".mcpbignore").write_text("# not for others\n\nsecret.*\ntests/\n")
    for _ in range(2):  # the bundle itself is not in the bundle
        assert cli("bundle", "weather_desk.py", "--author", "Ada").status == 0
        assert names_in(project / "weather-desk-0.1.0.mcpb") == {
            "README.md",
            "manifest.json",
            "mcpb_server.py",
            "notes/plan.md",
            "pyproject.toml",
            "weather_desk.py",
        }
    assert [each.name for each in project.glob("*.part")] == []


PRIVATE = {
    **dict.fromkeys(("id_rsa", "keys/server.pem", "KEYS/Server.PEM", "x.key", "prod.env"), b"x"),
    **dict.fromkeys(("cache.db", "cache.db-wal", "users.sqlite3", "gcp-credentials.json"), b"x"),
    "token.json": b"x",
    "deploy": b"# for production\n-----BEGIN OPENSSH PRIVATE KEY-----\n",
    "state": b"SQLite format 3\0...",
}


def test_what_is_private_is_left_out_of_a_bundle_and_named(cli: CommandLine, project: Path) -> None:
    for name, data in PRIVATE.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(data)
    for name in ("id_rsa.pub", "monkey.py", "notes.md"):
        (project / name).write_text("-----BEGIN CERTIFICATE-----")
    words = ["bundle", "weather_desk.py", "--author", "Ada", "-o", "x.mcpb"]
    done = cli(*words)
    assert done.status == 0
    packed = names_in(project / "x.mcpb")
    assert packed.isdisjoint(PRIVATE)
    assert packed >= {"id_rsa.pub", "monkey.py", "notes.md", "weather_desk.py"}
    assert "Left out, as private: " in done.err
    assert "id_rsa" in done.err
    assert "--include NAME adds" in done.err

    assert cli(*words, "--include", "*.db", "--include", "keys/server.pem").status == 0
    assert names_in(project / "x.mcpb") - packed == {"cache.db", "keys/server.pem"}
    mistaken = cli(*words, "--include", "cahce.db")
    assert (mistaken.status, mistaken.error) == (
        2,
        f"--include cahce.db means no file of {project}",
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files on Windows")
def test_a_bundle_replaces_nothing_but_a_file(cli: CommandLine, project: Path) -> None:
    os.mkfifo(project / "x.mcpb")
    done = cli("bundle", "weather_desk.py", "--author", "Ada", "-o", "x.mcpb")
    assert (done.status, done.error) == (1, "x.mcpb is not a regular file; give another --output")
    assert (project / "x.mcpb").is_fifo()


def test_what_the_project_says_is_in_the_manifest(cli: CommandLine, project: Path) -> None:
    change(
        project / "pyproject.toml",
        'dependencies = ["trio-mcp"]',
        'dependencies = ["Trio_MCP[http]>=1; python_version > \'3\'"]\nlicense = "MIT"\n'
        'authors = [{name = "Ada", email = "ada@example.com"}]\n'
        'urls = {Homepage = "https://x.example", Repository = "https://github.com/ada/desk"}',
    )
    words = ["--secret", "API_KEY=The key", "--setting", "CITY"]
    assert cli("bundle", "weather_desk.py", *words).status == 0
    manifest = manifest_of(project / "weather-desk-0.1.0.mcpb")
    assert manifest["author"] == {"name": "Ada", "email": "ada@example.com"}
    assert manifest["license"] == "MIT"
    assert manifest["homepage"] == "https://x.example"
    assert manifest["repository"] == {"type": "git", "url": "https://github.com/ada/desk"}
    assert manifest["server"]["mcp_config"]["env"] == {
        "API_KEY": "${user_config.api_key}",
        "CITY": "${user_config.city}",
    }
    asked = manifest["user_config"]
    assert asked["api_key"]["description"] == "The key"
    assert [asked[each]["sensitive"] for each in ("api_key", "city")] == [True, False]


def test_bundles_that_cannot_be_made(cli: CommandLine, project: Path, tmp_path: Path) -> None:
    words = ["bundle", "weather_desk.py"]
    assert cli(*words).error == "say who made it: --author NAME, or authors in pyproject.toml"
    outcome = cli(*words, "--author", "Ada", "--secret", "API KEY")
    assert (outcome.status, outcome.error) == (
        2,
        "a setting is KEY or KEY=DESCRIPTION, not 'API KEY'",
    )
    about = project / "pyproject.toml"
    change(about, '["trio-mcp"]', '["trio-mcp-extras", "trio"]')
    assert cli(*words).error == f"{about} must have trio-mcp in its dependencies"
    about.write_text("[build-system]\n")
    assert "has no table [project]" in cli(*words).error
    about.write_text("[project")
    assert f"{about} cannot be read: " in cli(*words).error
    (project / "weather_desk.py").rename(tmp_path / "outside.py")
    error = cli("bundle", str(tmp_path / "outside.py"), "--author", "Ada").error
    assert error.startswith("there is no pyproject.toml in ")
    assert list(project.glob("*.mcpb")) == []


def test_a_bundle_from_a_checkout_says_that_it_is_for_this_machine(
    cli: CommandLine, project: Path
) -> None:
    words = ["bundle", "weather_desk.py", "--author", "Ada"]
    assert "Only this machine" not in cli(*words).err
    change(project / "pyproject.toml", '["trio-mcp"]', '["trio-mcp @ file:///checkout"]')
    done = cli(*words)
    assert done.status == 0
    assert "Only this machine can install trio-mcp @ file:///checkout." in done.err


def test_a_name_that_the_bundle_needs(cli: CommandLine, project: Path) -> None:
    (project / "mcpb_server.py").write_text("")
    outcome = cli("bundle", "weather_desk.py", "--author", "Ada")
    assert (
        outcome.error == "mcpb_server.py is the name of a file that the bundle needs; rename yours"
    )


@pytest.mark.requirement("K6")
@pytest.mark.needs("node")
def test_the_official_validator_accepts_a_bundle(
    cli: CommandLine, project: Path, tmp_path: Path
) -> None:
    words = ["--author", "Ada", "--secret", "API_KEY=The key"]
    assert cli("bundle", "weather_desk.py", *words).status == 0
    program = FOLDER / "node_modules" / ".bin" / "mcpb"
    unpacked = tmp_path / "unpacked"
    for command in (
        ["unpack", "weather-desk-0.1.0.mcpb", str(unpacked)],
        ["validate", str(unpacked / "manifest.json")],
    ):
        done = subprocess.run([program, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "validation passes" in done.stdout


# -- the registry ----------------------------------------------------------------------------


def with_marker(project: Path) -> None:
    readme = project / "README.md"
    readme.write_text(f"{readme.read_text()}\n<!-- mcp-name: {NAME} -->\n")


@pytest.mark.requirement("K6")
def test_server_json(cli: CommandLine, project: Path) -> None:
    with_marker(project)
    remote = "https://mcp.example.com/mcp"
    words = ["publish", "weather_desk.py", "--name", NAME, "--secret", "API_KEY=The key"]
    done = cli(*words, "--remote", remote, "--dry-run")
    assert (done.status, done.out) == (0, "")
    assert json.loads((project / "server.json").read_text()) == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": NAME,
        "description": "An MCP server.",
        "version": "0.1.0",
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "weather-desk",
                "version": "0.1.0",
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "environmentVariables": [
                    {
                        "name": "API_KEY",
                        "description": "The key",
                        "isRequired": True,
                        "isSecret": True,
                    }
                ],
            }
        ],
        "remotes": [{"type": "streamable-http", "url": remote}],
    }


def test_nothing_is_published(cli: CommandLine, project: Path) -> None:
    outcome = cli("publish", "weather_desk.py", "--name", NAME)
    assert outcome.status == 2
    assert "--dry-run" in outcome.error


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("An MCP server.", "x" * 101, "description must have 1 to 100 characters, and has 101"),
        ('description = "An MCP server."', "", "description must have 1 to 100 characters"),
        ("weather-desk = ", "desk = ", "must have a script 'weather-desk'"),
        ('version = "0.1.0"', 'dynamic = ["version"]', "must have name and version"),
        (
            '["trio-mcp"]',
            '["trio-mcp @ file:///checkout"]',
            "the package index refuses 'trio-mcp @",
        ),
        ("0.1.0", "^1.2", "the version must be one version, not '^1.2'"),
    ],
)
def test_what_the_registry_would_refuse(
    old: str, new: str, said: str, cli: CommandLine, project: Path
) -> None:
    with_marker(project)
    change(project / "pyproject.toml", old, new)
    outcome = cli("publish", "weather_desk.py", "--name", NAME, "--dry-run")
    assert outcome.status == 1
    assert said in outcome.err
    assert "the registry would refuse it (1 reasons above)" in outcome.err
    assert not (project / "server.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", "weather"], "the name must be like io.github.me/weather"),
        (["--name", "a/b/c"], "the name must be like"),
        (["--name", NAME], "the README must have a line <!-- mcp-name: io.github.ada/weather-desk"),
        (["--name", NAME, "--remote", "http://x.example"], "a remote must be an https URL"),
        (["--name", NAME, "--remote", "https://localhost/mcp"], "a remote must be an https URL"),
        (
            ["--name", "com.example/desk", "--remote", "https://example.org/mcp"],
            "a remote of com.example/desk must be on example.com, not on example.org",
        ),
    ],
)
def test_names_and_remotes_that_will_not_do(
    words: list[str], said: str, cli: CommandLine, project: Path
) -> None:
    outcome = cli("publish", "weather_desk.py", *words, "--dry-run")
    assert outcome.status == 1
    assert said in outcome.err
