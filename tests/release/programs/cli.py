"""`cli`: the command, as the page of the tutorial runs it besides."""

import subprocess
import sys
from pathlib import Path

program = Path(sys.executable).with_name("trio-mcp")
done = subprocess.run([program, "--version"], check=True, stdout=subprocess.PIPE, text=True)
assert done.stdout.strip()
