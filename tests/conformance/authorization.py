"""Our OAuth proxy as the authorization server of the suite, before a certified provider.

As a program it serves on a port of its own, and prints its URL. `log_in` runs the suite's scenarios
of authorization servers: they print a page, where a person logs in who says yes.
"""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from urllib.parse import urljoin

import httpx2
import trio

from tests.interop.auth.support import proxied
from tests.interop.packages import FOLDER
from tests.store.redis_server import free_port


def log_in(command: list[str], url: str, log: IO[str]) -> None:
    """Run the suite as a client of the authorization server before our server at a URL.

    Args:
        command: The suite, and what it is to run.
        url: Our server.
        log: Takes what the suite says.
    """
    port = free_port()
    client = {
        "client_name": "Conformance suite",
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
        "token_endpoint_auth_method": "none",
    }
    known = httpx2.post(urljoin(url, "/register"), json=client, trust_env=False).json()
    options = {
        "--url": urljoin(url, "/").rstrip("/"),
        "--client-id": known["client_id"],
        "--resource": url,
        "--port": str(port),
    }
    command = [*command, *(word for option in options.items() for word in option)]
    person = [sys.executable, "-m", "tests.interop.auth.person"]
    with ExitStack() as stack:
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        suite = stack.enter_context(subprocess.Popen(command, **output))  # type: ignore[call-overload]
        for line in suite.stdout:
            log.write(line)
            if line.startswith(urljoin(url, "/authorize?")):
                stack.enter_context(subprocess.Popen([*person, line.strip()], stderr=log))


async def main(npm: Path) -> None:
    """Serve until killed."""
    npm.mkdir(exist_ok=True)
    (npm / "node_modules").symlink_to(FOLDER / "node_modules")
    async with proxied(npm) as url:
        print(url, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
