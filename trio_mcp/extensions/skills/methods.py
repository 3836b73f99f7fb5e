"""The methods of the skills extension."""

from typing import Final

from trio_mcp import Method

LIST: Final = Method(name="skills/list", repeatable=True)
GET: Final = Method(name="skills/get", repeatable=True)
DIRECTORY_READ: Final = Method(name="resources/directory/read", repeatable=True)
