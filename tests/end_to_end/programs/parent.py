"""Start a server as a child on pipes, tell its process id on stdout, and wait.

Usage: parent.py COMMAND...
"""

import subprocess
import sys

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert child.stdin is not None
assert child.stdout is not None
child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
child.stdin.flush()
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
