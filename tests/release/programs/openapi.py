"""`openapi`: a server of an HTTP API, from its document in YAML."""

from pathlib import Path

from trio_mcp.compose.openapi import openapi

DOCUMENT = """
openapi: 3.1.0
info: {title: Plants, version: "1"}
servers: [{url: "https://plants.example.com"}]
paths:
  /plants:
    get: {operationId: list_plants, responses: {"200": {description: All of them.}}}
"""

Path("plants.yaml").write_text(DOCUMENT)
assert list(openapi("plants.yaml").tools) == ["list_plants"]
