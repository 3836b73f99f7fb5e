"""What needs Node.js is left out where there is none, with a reason."""

import shutil

import pytest

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None,
    reason="Node.js is needed: node and npm are not on the PATH",
)
