"""OpenAPI documents as registries: each operation is a tool, or a resource.

- `document` reads a document, and `files` the files that it refers to.
- `schemas` makes JSON Schemas of its schemas, `operations` finds its operations and what they take.
- `parameters` and `bodies` write arguments into requests, `responses` reads what comes back.
- `security` shows credentials; `service` sends requests, within bounds; `pages` follows pages.
- `build` puts it together.
"""
