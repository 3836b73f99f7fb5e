"""Files below a root: what is read, and that nothing leads outside."""

import errno
import os
import shutil
import socket
import stat
import tempfile
import threading
import unicodedata
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from trio_mcp.registry.files import (
    NotFound,
    TooLarge,
    is_text_file,
    list_files_below,
    media_type_of,
    read_file_below,
)
from trio_mcp.system.capabilities import WALKS

SECRET = b"top secret"


@pytest.fixture(autouse=True)
def _no_descriptor_left():
    before = os.listdir("/proc/self/fd")
    yield
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.fixture
def root(tmp_path):
    """A tree of files; beside it, a directory with a secret."""
    tree = {
        "root/readme.md": b"# Read me",
        "root/docs/guide.txt": b"guide",
        "root/docs/deep/er/page.txt": b"page",
        "root/docs-old/guide.txt": b"old guide",
        "root/back\\slash.txt": b"an ordinary character",
        "root/%2e%2e": b"not decoded",
        "root/...": b"three dots",
        "root/..hidden": b"two dots and more",
        "root/ sp ace ": b"spaces",
        "root/empty": b"",
        "outside/secret.txt": SECRET,
        "secret.txt": SECRET,
    }
    for path, content in tree.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path / "root"


def read(root, path, max_bytes=1000):
    return read_file_below(root, path, max_bytes=max_bytes)


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("readme.md", b"# Read me"),
        ("docs/guide.txt", b"guide"),
        ("docs/deep/er/page.txt", b"page"),
        ("back\\slash.txt", b"an ordinary character"),
        ("%2e%2e", b"not decoded"),
        ("...", b"three dots"),
        ("..hidden", b"two dots and more"),
        (" sp ace ", b"spaces"),
        ("empty", b""),
    ],
)
def test_files_are_read(root, path, content):
    assert read(root, path) == content


def test_a_large_file_is_read_whole(root):
    content = os.urandom(1_500_000)
    (root / "large").write_bytes(content)
    assert read(root, "large", len(content)) == content


def test_the_root_may_be_a_link_and_is_opened_anew(root, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(root)
    assert read(link, "docs/guide.txt") == b"guide"
    assert "docs/guide.txt" in list_files_below(link)
    link.unlink()
    link.symlink_to(tmp_path / "root/docs")
    assert read(link, "guide.txt") == b"guide"


def test_the_root_may_be_relative(root, monkeypatch):
    monkeypatch.chdir(root.parent)
    assert read(Path("root"), "readme.md") == b"# Read me"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_are_taken_as_they_are_written(root, form):
    written = unicodedata.normalize(form, "café.txt")
    other = unicodedata.normalize("NFD" if form == "NFC" else "NFC", "café.txt")
    (root / written).write_bytes(b"coffee")
    assert read(root, written) == b"coffee"
    assert written in list_files_below(root)
    with pytest.raises(NotFound):
        read(root, other)


# -- attacks -----------------------------------------------------------------------------------

ATTACKS = {
    "nothing": "",
    "here": ".",
    "above": "..",
    "above and there": "../secret.txt",
    "above twice": "../../etc/passwd",
    "above by a detour": "docs/../../secret.txt",
    "above in the middle": "docs/../readme.md",
    "above at the end": "docs/..",
    "here in the middle": "docs/./guide.txt",
    "here at the beginning": "./readme.md",
    "an empty name": "docs//guide.txt",
    "a slash at the end": "readme.md/",
    "a slash at the beginning": "/readme.md",
    "an absolute path": "/etc/passwd",
    "two slashes": "//etc/passwd",
    "only slashes": "///",
    "backslashes": "..\\secret.txt",
    "backslashes in the middle": "docs\\..\\..\\secret.txt",
    "a drive": "C:\\secret.txt",
    "a URL": "file:///etc/passwd",
    "home": "~/.ssh/id_rsa",
    "a variable": "$HOME/.ssh/id_rsa",
    "encoded dots": "%2e%2e/secret.txt",
    "an encoded slash": "..%2fsecret.txt",
    "twice encoded": "%252e%252e%252fsecret.txt",
    "overlong encoding": "..%c0%afsecret.txt",
    "NUL": "readme.md\0",
    "NUL and a suffix": "readme.md\0.txt",
    "a newline": "readme.md\n",
    "a tabulator": "docs/\tguide.txt",
    "delete": "readme.md\x7f",
    "a control character of Latin-1": "readme.md\x85",
    "half of a surrogate pair": "\ud800",
    "a smuggled byte": "..\udc2f",
    "wide dots": "\uff0e\uff0e/secret.txt",
    "a wide slash": "..\uff0fsecret.txt",
    "a division slash": "..\u2215secret.txt",
    "a dot leader": "\u2025/secret.txt",
    "a zero-width space": ".\u200b./secret.txt",
    "a dot and a space": ".. /secret.txt",
    "three dots as a directory": ".../secret.txt",
    "a long name": "x" * 256,
    "a long name of few characters": "é" * 128,
    "a name far too long": "x" * 1_000_000,
    "a long path": "docs/" * 1000 + "guide.txt",
    "a path far too deep": "a/" * 500_000 + "b",
    "a long way out": "../" * 1000 + "etc/passwd",
    "a file as a directory": "readme.md/x",
    "a directory": "docs",
    "a directory below": "docs/deep",
    "a missing file": "docs/missing.txt",
    "a missing directory": "missing/guide.txt",
    "the other case": "README.MD",
    "the root by its name": "root/readme.md",
    "a stream of another system": "readme.md::$DATA",
}


@pytest.mark.parametrize("path", ATTACKS.values(), ids=ATTACKS.keys())
def test_paths_that_lead_nowhere(root, path):
    with pytest.raises(NotFound) as caught:
        read(root, path)
    check_message(caught.value, root)


def check_message(error, root):
    assert isinstance(error, LookupError)
    assert str(error).startswith("there is no file ")
    assert str(root) not in str(error)
    assert str(root.parent) not in str(error)
    assert len(str(error)) < 100


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link", "../secret.txt", "link"),
        ("link", "{outside}/secret.txt", "link"),
        ("link", "readme.md", "link"),
        ("link", "../outside", "link/secret.txt"),
        ("link", "{outside}", "link/secret.txt"),
        ("link", "..", "link/secret.txt"),
        ("link", "/", "link/etc/passwd"),
        ("link", "docs", "link/guide.txt"),
        ("link", "docs", "link/deep/er/page.txt"),
        ("docs/link", "../../outside", "docs/link/secret.txt"),
        ("docs/link", "../../secret.txt", "docs/link"),
        ("link", "link", "link"),
        ("link", "link", "link/x"),
        ("link", "missing", "link"),
        ("link", "/dev/stdin", "link"),
        ("link", "/proc/self/cwd", "link/secret.txt"),
    ],
)
def test_links_are_refused_wherever_they_lead(root, monkeypatch, link, target, path):
    monkeypatch.chdir(root.parent)
    (root / link).symlink_to(target.format(outside=root.parent / "outside"))
    with pytest.raises(NotFound) as caught:
        read(root, path)
    check_message(caught.value, root)
    assert not [path for path in list_files_below(root) if "link" in path]
    assert list_files_below(root, "link/") == []


def test_links_of_proc_are_refused():
    for path in ["cwd/pyproject.toml", "root/etc/passwd", "exe", "fd/0"]:
        with pytest.raises(NotFound):
            read(Path("/proc/self"), path)


def test_pipes_and_sockets_are_refused_without_waiting(root, monkeypatch):
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for path in ["pipe", "socket", "pipe/x", "socket/x"]:
            with pytest.raises(NotFound) as caught:
                read(root, path)
            check_message(caught.value, root)
        assert {"pipe", "socket"}.isdisjoint(list_files_below(root))


@pytest.mark.parametrize("device", ["null", "zero", "full", "tty"])
def test_devices_are_refused(device):
    with pytest.raises(NotFound):
        read(Path("/dev"), device)
    assert device not in list_files_below(Path("/dev"), device)


def test_devices_are_not_even_opened(monkeypatch):
    opened = []
    really_open = os.open

    def spy(path, *args, **options):
        opened.append(os.fspath(path))
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", spy)
    with pytest.raises(NotFound):
        read(Path("/dev"), "null")
    assert opened == ["/dev"]


def test_a_missing_root_is_a_missing_file(tmp_path):
    with pytest.raises(NotFound) as caught:
        read(tmp_path / "missing", "readme.md")
    check_message(caught.value, tmp_path / "missing")
    assert list_files_below(tmp_path / "missing") == []


def test_a_root_that_is_a_file_has_no_files(root):
    with pytest.raises(NotFound):
        read(root / "readme.md", "x")
    assert list_files_below(root / "readme.md") == []


class NoRights:
    """Run as a user without rights, if the tests have any."""

    def __enter__(self):
        self._user = os.geteuid()
        if self._user == 0:
            os.seteuid(65534)

    def __exit__(self, *_):
        if self._user == 0:
            os.seteuid(self._user)


@pytest.fixture
def open_root(root):
    """The root, reachable for everybody: pytest's own directories are not."""
    copy = Path(tempfile.mkdtemp())
    shutil.copytree(root, copy, dirs_exist_ok=True)
    copy.chmod(0o755)
    yield copy
    for path in copy.rglob("*"):
        path.chmod(0o700)
    shutil.rmtree(copy)


def test_what_may_not_be_read_is_not_there(open_root):
    (open_root / "docs").chmod(0)
    (open_root / "readme.md").chmod(0)
    with NoRights():
        assert read(open_root, "docs-old/guide.txt") == b"old guide"
        for path in ["readme.md", "docs/guide.txt", "docs/deep/er/page.txt"]:
            with pytest.raises(NotFound) as caught:
                read(open_root, path)
            check_message(caught.value, open_root)
        assert "docs-old/guide.txt" in list_files_below(open_root)
        assert list_files_below(open_root, "docs/") == []


def test_a_root_that_may_not_be_read_has_no_files(open_root):
    open_root.chmod(0)
    with NoRights():
        with pytest.raises(NotFound) as caught:
            read(open_root, "readme.md")
        check_message(caught.value, open_root)
        assert list_files_below(open_root) == []


@pytest.mark.parametrize(
    ("failing", "use"),
    [
        ("guide.txt", lambda root: read(root, "docs/guide.txt")),
        ("docs", lambda root: read(root, "docs/guide.txt")),
        ("er", list_files_below),
        ("docs", lambda root: list_files_below(root, "docs/")),
    ],
)
def test_trouble_of_our_own_is_not_hidden(root, monkeypatch, failing, use):
    really_open = os.open

    def fail(path, *args, **options):
        if os.path.basename(path) == failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match="Too many open files"):
        use(root)


def test_paths_have_4096_bytes_at_most(root):
    name = "x" * 255
    here = os.open(root, os.O_RDONLY)
    for _ in range(16):
        os.mkdir(name, dir_fd=here)
        above, here = here, os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(above)
        os.close(os.open("y", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    longest, too_long = [f"{'/'.join([name] * levels)}/y" for levels in (15, 16)]
    assert read(root, longest) == b""
    assert longest in list_files_below(root)
    with pytest.raises(NotFound):
        read(root, too_long)
    assert too_long not in list_files_below(root)


# -- races -------------------------------------------------------------------------------------


def swap_for_link(path, target):
    """Put a link in the place of a file or directory."""
    path.rename(path.with_name("gone"))
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("swapped", "target"), [("deep", "../../outside"), ("secret.txt", "../../../secret.txt")]
)
def test_a_link_that_appears_just_before_opening(root, monkeypatch, swapped, target):
    (root / "docs/deep/secret.txt").write_bytes(b"harmless")
    assert read(root, "docs/deep/secret.txt") == b"harmless"
    really_open = os.open
    swaps = []

    def swap_first(path, *args, **options):
        if os.path.basename(path) == swapped and not swaps:
            swaps.append(swapped)
            where = root / "docs" if swapped == "deep" else root / "docs/deep"
            swap_for_link(where / swapped, target)
            assert (where / swapped).exists()
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", swap_first)
    with pytest.raises(NotFound):
        read(root, "docs/deep/secret.txt")
    assert swaps == [swapped]


def test_a_link_that_appears_while_listing(root, monkeypatch):
    really_open = os.open

    def swap_first(path, *args, **options):
        if os.path.basename(path) == "deep" and not (root / "docs/deep").is_symlink():
            swap_for_link(root / "docs/deep", root.parent / "outside")
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", swap_first)
    assert "docs/deep/secret.txt" not in list_files_below(root)
    assert (root / "docs/deep/secret.txt").exists()


def test_a_directory_that_moves_after_it_was_opened(root, monkeypatch):
    (root / "docs/deep/secret.txt").write_bytes(b"harmless")
    really_open = os.open

    def swap_afterwards(path, *args, **options):
        descriptor = really_open(path, *args, **options)
        if os.path.basename(path) == "deep":
            swap_for_link(root / "docs/deep", root.parent / "outside")
        return descriptor

    monkeypatch.setattr(os, "open", swap_afterwards)
    if WALKS:
        assert read(root, "docs/deep/secret.txt") == b"harmless"
    else:  # elsewhere than on Windows, where an open directory cannot be moved
        with pytest.raises(NotFound):
            read(root, "docs/deep/secret.txt")
    assert (root / "docs/deep/secret.txt").read_bytes() == SECRET


def test_a_pipe_that_appears_after_looking(root, monkeypatch):
    really_stat = os.stat

    def swap_afterwards(path, *args, **options):
        status = really_stat(path, *args, **options)
        if os.path.basename(path) == "guide.txt":
            (root / "docs/guide.txt").unlink()
            os.mkfifo(root / "docs/guide.txt")
        return status

    monkeypatch.setattr(os, "stat", swap_afterwards)
    with pytest.raises(NotFound):
        read(root, "docs/guide.txt")
    assert stat.S_ISFIFO((root / "docs/guide.txt").lstat().st_mode)


def test_a_thread_that_swaps_all_the_time(root):
    """Whatever comes when: what is read is never what lies outside."""
    (root / "docs/secret.txt").write_bytes(b"harmless")
    docs, spare, link = root / "docs", root / "spare", root / "link"
    link.symlink_to("../outside")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            docs.rename(spare)
            link.rename(docs)
            docs.rename(link)
            spare.rename(docs)

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes = set()
    try:
        for _ in range(3000):
            try:
                outcomes.add(read(root, "docs/secret.txt"))
            except NotFound:
                outcomes.add(None)
    finally:
        stop.set()
        swapper.join()
    assert outcomes <= {b"harmless", None}
    assert read(root, "docs/secret.txt") == b"harmless"


# -- sizes -------------------------------------------------------------------------------------


def test_sizes_up_to_the_bound_are_read(root):
    assert read(root, "docs/guide.txt", max_bytes=5) == b"guide"
    with pytest.raises(TooLarge) as caught:
        read(root, "docs/guide.txt", max_bytes=4)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == "the file 'docs/guide.txt' is larger than 4 bytes"
    assert read(root, "empty", max_bytes=0) == b""


def test_a_huge_file_is_refused_before_it_is_read(root):
    with open(root / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLarge):
        read(root, "huge", max_bytes=1 << 20)


def test_the_size_is_watched_while_reading():
    """Files of /proc say that they are empty, and are not."""
    assert os.stat("/proc/self/status").st_size == 0
    assert b"VmRSS" in read(Path("/proc/self"), "status", max_bytes=100_000)
    with pytest.raises(TooLarge):
        read(Path("/proc/self"), "status", max_bytes=10)


def test_a_file_that_grows_while_it_is_read(root, monkeypatch):
    really_read = os.read

    def grow_first(descriptor, size):
        with open(root / "docs/guide.txt", "ab") as file:
            file.write(b"more and more")
        return really_read(descriptor, size)

    monkeypatch.setattr(os, "read", grow_first)
    with pytest.raises(TooLarge):
        read(root, "docs/guide.txt", max_bytes=10)


# -- listing -----------------------------------------------------------------------------------

ALL = [
    " sp ace ",
    "%2e%2e",
    "...",
    "..hidden",
    "back\\slash.txt",
    "docs-old/guide.txt",
    "docs/deep/er/page.txt",
    "docs/guide.txt",
    "empty",
    "readme.md",
]


def test_all_files_are_listed_in_order(root):
    assert list_files_below(root) == ALL == sorted(ALL)
    for path in ALL:
        read(root, path)


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "d",
        "docs",
        "docs/",
        "docs/d",
        "docs/deep/er/page.txt",
        "docs-",
        "..",
        "r",
        "x",
        "docs/x",
    ],
)
def test_the_files_whose_path_begins_so(root, prefix):
    assert list_files_below(root, prefix) == [path for path in ALL if path.startswith(prefix)]


@pytest.mark.parametrize(
    "prefix",
    [
        "/",
        "/etc/",
        "../",
        "../o",
        "docs/../",
        "docs//",
        "./",
        "docs/\0",
        "\n",
        "\ud800",
        "docs/\x85/",
        "x" * 300,
        "x/" * 10_000,
        "missing/",
        "readme.md/",
    ],
)
def test_prefixes_that_lead_nowhere(root, prefix):
    assert list_files_below(root, prefix) == []


def test_the_first_ones_are_listed(root):
    for most in range(len(ALL) + 1):
        assert list_files_below(root, limit=most) == ALL[:most]
    assert list_files_below(root, limit=-1) == []


def test_names_that_cannot_be_asked_for_are_not_listed(root):
    for name in [b"\xff.txt", b"new\nline", b"\xc2\x85"]:
        os.close(os.open(os.path.join(os.fsencode(root), name), os.O_CREAT | os.O_WRONLY))
    os.mkdir(os.path.join(os.fsencode(root), b"\xfe"))
    (root / os.fsdecode(b"\xfe") / "inner").write_bytes(b"")
    assert list_files_below(root) == ALL


def test_order_is_that_of_whole_paths(tmp_path):
    paths = ["a/b", "a-b", "a.b", "a0", "a/a/z", "a/a.z", "ab/c", "B", "é", "a/é"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"")
    assert list_files_below(tmp_path) == sorted(paths)


def test_the_work_is_bounded_in_breadth(root, monkeypatch):
    looked_at = []

    class Endless:
        """A directory without end."""

        def __enter__(self):
            for number in count():
                looked_at.append(number)
                yes, no = (lambda follow_symlinks: True), (lambda follow_symlinks: False)
                yield SimpleNamespace(name=f"{number:08}", is_file=yes, is_dir=no)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", lambda directory: Endless())
    assert list_files_below(root, "000", limit=3) == ["00000000", "00000001", "00000002"]
    assert len(looked_at) == 20_000
    assert list_files_below(root, "x") == []


def test_the_work_is_bounded_in_depth(tmp_path):
    path = tmp_path
    for level in range(60):
        path = path / f"d{level}"
        path.mkdir()
        (path / "file").write_bytes(b"")
    found = list_files_below(tmp_path)
    assert "d0/file" in found
    assert len(found) == 31
    assert read(tmp_path, path.relative_to(tmp_path).as_posix() + "/file") == b""


def test_directories_full_of_directories_are_left_in_time(tmp_path):
    for number in range(300):
        (tmp_path / f"{number:03}" / "inner").mkdir(parents=True)
    (tmp_path / "zzz").write_bytes(b"")
    assert list_files_below(tmp_path) == ["zzz"]


# -- media types -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("docs/A.MD", "text/markdown"),
        ("a.py", "text/x-python"),
        ("a.toml", "application/toml"),
        ("a.yaml", "application/yaml"),
        ("a.yml", "application/yaml"),
        ("a.json", "application/json"),
        ("a.jsonl", "application/jsonl"),
        ("a.js", "text/javascript"),
        ("a.ts", "text/x-typescript"),
        ("a.rs", "text/x-rust"),
        ("a.txt", "text/plain"),
        ("a.html", "text/html"),
        ("a.css", "text/css"),
        ("a.csv", "text/csv"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.webp", "image/webp"),
        ("a.pdf", "application/pdf"),
        ("a.tar", "application/x-tar"),
        ("a.tar.gz", "application/gzip"),
        ("a.tgz", "application/gzip"),
        ("a.md.gz", "application/gzip"),
        ("a.txt.xz", "application/x-xz"),
        ("README", "text/plain"),
        ("src/Makefile", "text/plain"),
        (".gitignore", "text/plain"),
        ("data:text/html,a.png", "image/png"),
        ("a.xyzzy", "application/octet-stream"),
        ("a", "application/octet-stream"),
        ("a.", "application/octet-stream"),
        (".md", "application/octet-stream"),
        ("a.md/b", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_media_types_are_guessed_from_names(path, media_type):
    assert media_type_of(path) == media_type


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/x-python",
        "TEXT/HTML; charset=utf-8",
        "application/json",
        "application/toml",
        "application/yaml",
        "image/svg+xml",
        "application/ld+json",
    ],
)
def test_text_is_what_the_type_and_the_bytes_say(media_type):
    assert is_text_file("naïve".encode(), media_type)
    assert is_text_file(b"", media_type)
    assert not is_text_file("naïve".encode("latin-1"), media_type)
    assert not is_text_file(b"\xff\xfe", media_type)


@pytest.mark.parametrize(
    "media_type", ["application/octet-stream", "image/png", "application/gzip", "", "texts/plain"]
)
def test_other_types_are_no_text(media_type):
    assert not is_text_file(b"plain", media_type)
