"""The recipe for Kubernetes: its manifests are valid, and a process of its command does what they say.

What kubelet does is done by hand: the probes are asked, a pod that ends gets SIGTERM, and has its grace.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from tests.docs.recipes import NAME, RECIPES, address_of, agree, ours
from tests.docs.test_deploy_docker import instructions
from tests.interop import packages
from tests.store.redis_server import redis_server
from tests.support.processes import ENVIRONMENT, TIME_LIMIT, running
from trio_mcp import Handlers, HttpOptions, connect

pytestmark = pytest.mark.requirement("T6")

FILE = RECIPES / "kubernetes.yaml"
KINDS = {each["kind"]: each for each in yaml.safe_load_all(FILE.read_text())}
DEPLOYMENT = KINDS["Deployment"]["spec"]
POD = DEPLOYMENT["template"]["spec"]
(CONTAINER,) = POD["containers"]
DOCKERFILE = dict(instructions((RECIPES / "Dockerfile").read_text()))
OLDEST = "1.29"
"""The oldest version of Kubernetes that the manifests are held against; the newest is the judge's."""


def command(**instead: str) -> list[str]:
    """What a pod runs: the image's entrypoint, with the container's arguments."""
    words = [*json.loads(DOCKERFILE["ENTRYPOINT"]), *CONTAINER["args"]]
    for shown, other in instead.items():
        (place,) = (at for at, word in enumerate(words) if word.startswith(f"--{shown}="))
        words[place] = f"--{shown}={other}"
    words[words.index("press.py")] = str(RECIPES / "press.py")
    return ours([word.replace("0.0.0.0:8000", "127.0.0.1:0") for word in words])


def option(name: str) -> float:
    (found,) = (
        word.partition("=")[2] for word in CONTAINER["args"] if word.startswith(f"--{name}=")
    )
    return float(found)


@pytest.mark.needs("recipes")
@pytest.mark.parametrize("version", [[], ["--kubernetes-version", OLDEST]])
def test_the_manifests_are_valid(version: list[str]) -> None:
    judge = packages.RECIPES.folder / "bin" / "kubernetes-validate"
    done = subprocess.run(
        [judge, *version, "--strict", FILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == len(KINDS)


def test_the_manifests_are_about_each_other_and_the_image() -> None:
    assert set(KINDS) == {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    assert DEPLOYMENT["selector"]["matchLabels"] == labels
    assert KINDS["Service"]["spec"]["selector"] == labels
    assert KINDS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    target = KINDS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == KINDS["Deployment"]["metadata"]["name"]
    assert CONTAINER["resources"]["requests"]["cpu"], "utilization is of what is requested"
    (port,) = CONTAINER["ports"]
    assert str(port["containerPort"]) == DOCKERFILE["EXPOSE"]
    assert KINDS["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert POD["securityContext"]["runAsNonRoot"]
    assert DOCKERFILE["USER"].isdigit(), "the cluster cannot see that a name is not root"


def test_a_pod_has_the_time_that_its_end_takes() -> None:
    (program, pause) = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    readiness = CONTAINER["readinessProbe"]
    assert float(pause) > readiness["periodSeconds"]
    ends = float(pause) + option("shutdown-grace") + 5 + 5  # the lifespan, and answers
    assert POD["terminationGracePeriodSeconds"] >= ends


@pytest.mark.needs("redis-server")
async def test_a_pod_answers_its_probes_and_lets_calls_finish_when_it_ends(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        words = command(store=redis.url, **{"trust-proxy": "127.0.0.1"})
        async with running(words, env=ENVIRONMENT) as server:
            address = await address_of(server)
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert await asked(address, CONTAINER[probe]) == 200
            redis.send_signal(signal.SIGSTOP)
            assert await asked(address, CONTAINER["livenessProbe"]) == 200, "no restart helps there"
            await until(503, address)
            redis.send_signal(signal.SIGCONT)
            await until(200, address)
            await end_during_a_call(server, address)


async def end_during_a_call(server: Any, address: str) -> None:
    """SIGTERM: no more is taken, and what runs is answered."""
    http = HttpOptions(trust_env=False, headers={"Host": NAME})
    kept = await trio.open_tcp_stream(*place(address))  # a probe on a connection that is kept
    ended, drained = trio.Event(), trio.Event()

    def end(*_: Any) -> None:
        if not ended.is_set():
            server.signal(signal.SIGTERM)
            ended.set()

    async with connect(
        f"http://{address}/mcp", http=http, handlers=Handlers(elicitation=agree)
    ) as client:
        arguments = {"title": "Emma", "copies": 60}  # which takes 3 s, and the rest a moment
        async with kept, trio.open_nursery() as nursery:

            async def ask_while_it_drains() -> None:
                await ended.wait()
                while (status := await status_on(kept, CONTAINER["readinessProbe"])) == 200:
                    await trio.lowlevel.checkpoint()
                assert status == 503
                with pytest.raises(OSError, match="all attempts to connect"):
                    while True:  # it says so a moment before it closes its door
                        await (await trio.open_tcp_stream(*place(address))).aclose()
                drained.set()

            nursery.start_soon(ask_while_it_drains)
            result = await client.call_tool("print_book", arguments, on_progress=end)
            assert drained.is_set(), "all of that was while the call ran"
    assert result.text == "60 copies of Emma"
    with trio.fail_after(POD["terminationGracePeriodSeconds"]):
        assert await server.exit() == 0


async def until(status: int, address: str) -> None:
    """Ask whether a pod is ready until the answer is this."""
    with trio.fail_after(TIME_LIMIT):
        while await asked(address, CONTAINER["readinessProbe"]) != status:
            await trio.sleep(0.05)


async def asked(address: str, probe: dict[str, Any]) -> int:
    """Ask as kubelet does: by the address of the pod."""
    assert probe["httpGet"]["port"] == CONTAINER["ports"][0]["name"]
    with trio.fail_after(probe.get("timeoutSeconds", 1)):
        async with await trio.open_tcp_stream(*place(address)) as stream:
            return await status_on(stream, probe)


def place(address: str) -> tuple[str, int]:
    """Host and port of an address."""
    host, _, port = address.rpartition(":")
    return host, int(port)


async def status_on(stream: trio.SocketStream, probe: dict[str, Any]) -> int:
    host, port, *_ = stream.socket.getpeername()
    path = probe["httpGet"]["path"]
    await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return int((await stream.receive_some()).split()[1])
