"""Recipes with trio-mcp: models, pictures, templates, prompts."""

import json
from base64 import b64decode
from typing import Annotated, Literal

import trio
from pydantic import BaseModel, Field, computed_field, field_validator

from trio_mcp import Context, Image, PromptMessage, Registry, ResourceNotFound, ToolError, serve

registry = Registry("recipes", version="1.0", instructions="Look before you cook.")

PHOTO = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5C"
)


class Ingredient(BaseModel):
    name: Annotated[str, Field(min_length=1, description="What it is.")]
    grams: Annotated[float, Field(gt=0)]

    @field_validator("name")
    @classmethod
    def _edible(cls, name: str) -> str:
        if name == "stone":
            raise ValueError("nobody eats stones")
        return name.lower()


class Recipe(BaseModel):
    """How to make a dish."""

    title: str
    ingredients: list[Ingredient] = Field(min_length=1)
    course: Literal["starter", "main", "dessert"] = "main"

    @computed_field
    @property
    def weight(self) -> float:
        return sum(each.grams for each in self.ingredients)


RECIPES: dict[str, Recipe] = {}


def recipe_of(title: str) -> Recipe:
    if title not in RECIPES:
        raise ToolError(f"There is no recipe for {title}.")
    return RECIPES[title]


@registry.tool
async def add(recipe: Recipe, context: Context) -> Recipe:
    """Add a recipe."""
    await context.progress(1, total=1)
    RECIPES[recipe.title] = recipe
    return recipe


@registry.tool
def find(
    words: Annotated[str, Field(description="What the title holds.")],
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
) -> list[Recipe]:
    """Find recipes."""
    return [each for each in RECIPES.values() if words in each.title][:limit]


@registry.tool(annotations={"readOnlyHint": True})
def count(course: Literal["starter", "main", "dessert"] | None = None) -> int:
    """Count the recipes."""
    return sum(course in (None, each.course) for each in RECIPES.values())


@registry.tool
def photo(title: str) -> Image:
    """Show a dish."""
    recipe_of(title)
    return Image(data=PHOTO, format="png")


@registry.tool
def card(title: str) -> list[str | Image]:
    """Show a dish, and say what it is."""
    recipe = recipe_of(title)
    return [f"{recipe.title}, {recipe.weight:g} g", Image(data=PHOTO, format="png")]


@registry.resource("recipes://titles", mime_type="application/json")
def titles() -> str:
    """All titles."""
    return json.dumps(sorted(RECIPES))


@registry.resource("recipes://{title}/text", mime_type="text/plain")
def as_text(title: str) -> str:
    """A recipe as text."""
    if title not in RECIPES:
        raise ResourceNotFound("There is no such recipe")
    parts = (f"{each.grams:g} g {each.name}" for each in RECIPES[title].ingredients)
    return "\n".join([title, *parts])


@registry.resource("recipes://{title}/photo", mime_type="image/png")
def as_photo(title: str) -> bytes:
    """What it looks like."""
    return PHOTO


@registry.prompt
def cook(title: str, guests: int = 2) -> list[PromptMessage]:
    """Ask for help in the kitchen."""
    return [
        PromptMessage("user", f"Help me cook {title} for {guests}."),
        PromptMessage("assistant", "What do you have in the kitchen?"),
    ]


if __name__ == "__main__":
    trio.run(serve, registry)
