"""`trio-mcp inspect`, with commands from a pipe."""

from tests.cli.support import COMMAND, SHOP
from tests.support.processes import EXAMPLES, run

SCRIPT = b"""help

list tools
call say words=hello
call types {"text": "x y"}
ping
read shop://stock
prompt review book=Emma
subscribe tools
subscribe tools prompts
call restock
unsubscribe prompts
subscribe shop://stock
call restock
ping
ping
unsubscribe all
quit
call say words=never
"""


async def test_commands_from_a_pipe() -> None:
    done = await run([*COMMAND, "inspect", SHOP], SCRIPT)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert "subscribe URI" in out
    assert "Order a book." in out
    assert "returned: hello\n" in out
    assert '"text": "x y"' in out
    assert " ms\n" in out
    assert "never" not in out
    assert '{"Emma":3}\n' in out, "what comes next begins a line of its own"
    assert "Write a kind review of Emma." in out
    told = done.stderr.decode()
    assert told.count("Subscribed to tools.") == 1
    assert "No longer subscribed to prompts." in told
    assert told.count("Changed: shop://stock") == 1


async def test_a_command_that_fails_shows_in_the_exit_status() -> None:
    script = b"call nothing\nlist nothing\ncall fail\ncall say words=on\nread a b\ncall\n"
    script += b"prompt\nsubscribe\nunsubscribe it\nread shop://nothing\ncall say words='\n"
    done = await run([*COMMAND, "inspect", SHOP], script)
    assert done.returncode == 1
    assert done.stdout == b"returned: on\n"
    told = done.stderr.decode()
    assert "no tool 'nothing'" in told
    assert "usage: list [tools|resources|prompts]" in told
    assert "tool 'fail' failed: It failed: no reason" in told
    assert "usage: read URI" in told
    assert "usage: call NAME" in told
    assert "usage: prompt NAME" in told
    assert "subscribe takes URIs" in told
    assert "there is no subscription to 'it'" in told
    assert "there is no resource shop://nothing" in told
    assert "cannot be split into words" in told
    assert "Traceback" not in told


async def test_no_value_ends_the_session() -> None:
    values = ("number=1e400", "number:=1e400", '{"number": 1e400}', 'text:="\\ud800"')
    deep = "[" * 3000 + "]" * 3000
    script = "".join(f"call types text=a {each}\n" for each in (*values, f"nested:={deep}"))
    done = await run([*COMMAND, "inspect", SHOP], f"{script}call say words=on\n".encode())
    assert (done.returncode, done.stdout) == (1, b"returned: on\n")
    told = done.stderr.decode()
    assert "'number' must be a number" in told
    assert told.count("1e400, which is too large, is not JSON") == 2
    assert told.count("trio-mcp: ") == len(values) + 1
    assert "Traceback" not in told


async def test_what_was_meant() -> None:
    script = b"cal say words=on\nread shop://stok\ncall sya\ncomplete reviw book=E\n"
    done = await run([*COMMAND, "inspect", SHOP], script)
    told = done.stderr.decode()
    for word in ("'call'", "shop://stock", "'say'", "'review'"):
        assert f"did you mean {word}?" in told


async def test_templates_are_counted() -> None:
    done = await run([*COMMAND, "inspect", str(EXAMPLES / "completion.py")], b"")
    assert "0 tools, 0 resources, 1 template, 1 prompt." in done.stderr.decode()


async def test_completion_on_demand() -> None:
    script = b"complete trip city=V country=Italy\ncomplete trip city=X\ncomplete trip\n"
    script += b"complete trains://{number} number=1\ncomplete nothing a=b\n"
    done = await run([*COMMAND, "inspect", str(EXAMPLES / "completion.py")], script)
    assert done.stdout.startswith(b"Venice\n1")
    told = done.stderr.decode()
    assert "There are none." in told
    assert "There are more." in told
    assert "usage: complete PROMPT|TEMPLATE KEY=VALUE" in told
    assert "no prompt or template 'nothing'; it has: trip, trains://{number}" in told


async def test_a_server_that_dies_is_started_again() -> None:
    script = b"call complain\ncall die\ncall say words=on\ncall die\nquit\ncall say words=never\n"
    done = await run([*COMMAND, "inspect", SHOP], script)
    assert (done.returncode, done.stdout) == (1, b"complained\nreturned: on\n")
    told = done.stderr.decode()
    assert told.count("the server exited with status 3 and left no word on stderr") == 2
    assert told.count("Connected to shop") == 2
    assert "OldError" not in told
