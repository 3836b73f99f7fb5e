"""Several instances of a program that share a store, behind a balancer that favours nobody."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.store.redis_server import free_port
from tests.support.processes import SYSTEM_PATH

NGINX = shutil.which("nginx", path=SYSTEM_PATH) or "nginx"

_CONFIGURATION = """
worker_processes 1;
daemon off;
pid nginx.pid;
error_log error.log warn;
events {{ worker_connections 4096; }}
http {{
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    access_log off;
    client_max_body_size 16m;
    large_client_header_buffers 4 16k;
    ignore_invalid_headers off;
    upstream fleet {{
        {servers}
        keepalive 64;
        keepalive_timeout 30s;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_next_upstream error;
            proxy_pass http://fleet;
        }}
    }}
}}
"""
"""Each request goes to the next instance. One that answered nothing is not sent again."""


@contextmanager
def balanced(folder: Path, ports: Sequence[int]) -> Iterator[int]:
    """Run nginx before instances on some ports. Yields its own."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    servers = "\n        ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
    path = folder / "nginx.conf"
    path.write_text(_CONFIGURATION.format(port=port, servers=servers))
    command = [NGINX, "-p", str(folder), "-c", str(path), "-e", str(folder / "error.log")]
    with subprocess.Popen(command) as nginx:
        try:
            while not _listens(port):
                assert nginx.poll() is None, (folder / "error.log").read_text()
                time.sleep(0.02)
            yield port
        finally:
            nginx.terminate()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextmanager
def instances(
    command: Sequence[str], size: int, *, environment: Mapping[str, str], cwd: Path, log: Path
) -> Iterator[list[str]]:
    """Run a program so many times; each prints its URL as its first line. Yields the URLs."""
    with ExitStack() as stack:
        file = stack.enter_context(log.open("w"))
        urls = []
        for _ in range(size):
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    text=True,
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            urls.append(process.stdout.readline().strip())
        yield urls


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port
