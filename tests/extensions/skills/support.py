"""Skills to serve, and a server that lies about them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trio_mcp import Client, Registry, connect
from trio_mcp.extending import ExtensionMethod, Method, ServerExtension
from trio_mcp.extensions.skills import Skills, SkillsClient
from trio_mcp.extensions.skills.format import IDENTIFIER, digest_of

URI = "skill://git-workflow/SKILL.md"
FORMS = "skill://git-workflow/references/FORMS.md"


def skill_md(name: str, more: str = "", description: str = "How to do it") -> str:
    """The text of a SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\nDo it.\n"


def write(root: Path, path: str, content: str | bytes) -> Path:
    """Write a file below a directory."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def put_skill(root: Path, path: str, more: str = "") -> Path:
    """Write a skill with one further file."""
    write(root, f"{path}/SKILL.md", skill_md(path.rpartition("/")[2], more))
    write(root, f"{path}/references/FORMS.md", "# Forms\n")
    return root / path


@asynccontextmanager
async def served(skills: Skills, **options: Any) -> AsyncIterator[tuple[Client, SkillsClient]]:
    """A client of a server with skills."""
    ours = SkillsClient("shelf", **options)
    async with connect(Registry("skilled", extensions=[skills]), extensions=[ours]) as client:
        yield client, ours


class Liar(ServerExtension):
    """A server that describes a skill as the test wants."""

    identifier = IDENTIFIER
    settings: Any = MappingProxyType({})

    def __init__(self) -> None:
        text = skill_md("git-workflow")
        self.texts: dict[str, Any] = {URI: text, FORMS: "# Forms\n"}
        self.entry: dict[str, Any] = {
            "uri": URI,
            "frontmatter": {"name": "git-workflow", "description": "How to do it"},
            "resources": [self.resource(uri, text) for uri, text in self.texts.items()],
        }
        self.reads: list[str] = []
        self.directory: Any = {"resources": []}

    def resource(self, uri: str, text: str) -> dict[str, Any]:
        """What an honest entry says of a file."""
        return {"uri": uri, "digest": digest_of(text.encode()), "size": len(text.encode())}

    def says(self, uri: str, text: str) -> None:
        """Let it serve another text, and an entry that fits."""
        self.texts[uri] = text
        for file in self.entry["resources"]:
            if file["uri"] == uri:
                file |= self.resource(uri, text)

    def methods(self) -> list[ExtensionMethod]:
        answers = {
            "skills/list": self.list,
            "skills/get": self.get,
            "resources/directory/read": self.read_directory,
        }
        return [ExtensionMethod(row=Method(name=name), handler=a) for name, a in answers.items()]

    async def list(self, request: Any) -> dict[str, Any]:
        return {"skills": [self.entry]}

    async def get(self, request: Any) -> dict[str, Any]:
        return {"skill": self.entry}

    async def read_directory(self, request: Any) -> dict[str, Any]:
        return dict(self.directory)

    def added_to(self, registry: Registry) -> None:
        @registry.resource("skill://{+path}")
        async def read(path: str) -> Any:
            self.reads.append(path)
            return self.texts[f"skill://{path}"]

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncIterator[SkillsClient]:
        """A client of it."""
        ours = SkillsClient("liar", **options)
        async with connect(Registry("liar", extensions=[self]), extensions=[ours]):
            yield ours
