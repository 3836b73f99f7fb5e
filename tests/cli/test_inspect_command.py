"""`trio-mcp inspect`, with commands from a pipe."""

from tests.cli.support import COMMAND, SHOP
from tests.support.processes import run

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
