"""Build the wheel and the sources of the last commit, and check them: `make dist`.

python -m tests.release.build [FOLDER]

What is built is what is committed: the commit is written to two folders, and built in each of them
under different circumstances. The files must be the same, byte for byte, and the sources must build
that wheel again.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
MIN_RATING: Final = 8
"""Of 10, as pyroma counts: the project has no mail address, and no page yet."""


class Refused(Exception):
    """Nothing is built or tagged; the message says why."""


@attrs.frozen
class Circumstances:
    """What a build must not depend on."""

    folder: str
    umask: int
    zone: str
    seed: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that say so."""
        return {"TZ": self.zone, "PYTHONHASHSEED": self.seed}


FIRST: Final = Circumstances("one", 0o022, "UTC", "1")
SECOND: Final = Circumstances("another/and deeper", 0o077, "Asia/Tokyo", "2")


def git(*words: str, root: Path = ROOT) -> str:
    """What git prints."""
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def export(folder: Path, root: Path = ROOT) -> None:
    """Write the last commit to a folder."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git("archive", f"--output={archive}", "HEAD", root=root)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    archive.unlink()


def run(*command: str, **options: object) -> str:
    """Run a command of this environment that must succeed; return what it prints."""
    words = [sys.executable, "-m", *command]
    merged = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    done = subprocess.run(words, **merged)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise Refused(f"{' '.join(command)} failed:\n{done.stdout}")
    return str(done.stdout)


def build(sources: Path, out: Path, epoch: str, how: Circumstances, *targets: str) -> list[Path]:
    """Build targets (`wheel`, `sdist`; by default both) into a folder; return the files."""
    run(
        *("hatchling", "build", "--directory", str(out)),
        *(word for target in targets for word in ("--target", target)),
        cwd=sources,
        umask=how.umask,
        env={**os.environ, **how.variables, "SOURCE_DATE_EPOCH": epoch},
    )
    return sorted(out.iterdir())


def digest(file: Path) -> str:
    """Its SHA-256, as `sha256sum` writes it."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def compare(files: Iterable[Path], others: Iterable[Path], when: str) -> None:
    """Refuse files that are not the same as others of the same names."""
    first, second = ({file.name: digest(file) for file in each} for each in (files, others))
    different = sorted(name for name, found in second.items() if first.get(name) != found)
    if different:
        raise Refused(f"{', '.join(different)}: different {when}")


def build_twice(work: Path, root: Path = ROOT) -> list[Path]:
    """Build the last commit of a repository in two folders, and its wheel from the sources as well.

    Raises:
        Refused: The files are not the same, or cannot be built.
    """
    epoch = git("log", "-1", "--format=%ct", root=root)
    builds = []
    for how in (FIRST, SECOND):
        sources = work / how.folder
        export(sources, root)
        builds.append(build(sources, work / f"{how.umask}", epoch, how))
    compare(*builds, "when built in another folder")
    archive = next(file for file in builds[0] if file.suffix == ".gz")
    with tarfile.open(archive) as file:
        file.extractall(work / "sources", filter="data")
    (sources,) = (work / "sources").iterdir()
    again = build(sources, work / "again", epoch, FIRST, "wheel")
    compare(builds[0], again, "when built from the sources")
    return builds[0]


def check(files: list[Path]) -> None:
    """Check the files as those who publish packages do.

    Raises:
        Refused: One of them is not as it should be.
    """
    wheel, archive = (str(next(f for f in files if f.suffix == end)) for end in (".whl", ".gz"))
    run("twine", "check", "--strict", wheel, archive)
    run("check_wheel_contents", "--toplevel", "trio_mcp", wheel)
    run("pyroma", f"--min={MIN_RATING}", archive)


def main(given: list[str]) -> int:
    """Build into a folder, which is emptied before; print what has been built."""
    out = Path(given[0] if given else ROOT / "dist")
    try:
        with TemporaryDirectory() as work:
            files = build_twice(Path(work))
            check(files)
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            built = [Path(shutil.copy(file, out)) for file in files]
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    for file in built:
        print(f"{digest(file)}  {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
