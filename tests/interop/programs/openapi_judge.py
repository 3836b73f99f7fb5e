"""Holds requests against an OpenAPI document, by a library that has nothing to do with ours.

Its input is one JSON object: the path of a document, and requests. It prints what is wrong with
each of them. It is run by the Python of an environment that has openapi-core.
"""

import base64
import json
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import yaml
from openapi_core import Config, OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest
from openapi_core.validation.request.exceptions import SecurityValidationError
from werkzeug.datastructures import MultiDict

given = json.load(sys.stdin)
text = Path(given["document"]).read_text()
document = json.loads(text) if text[:1] == "{" else yaml.load(text, Loader=yaml.CSafeLoader)
document["servers"] = [{"url": given["base_url"]}]
for path in document["paths"].values():
    for operation in path.values():
        if isinstance(operation, dict):
            operation.pop("servers", None)
    path.pop("servers", None)
api = OpenAPI.from_dict(document, config=Config(spec_validator_cls=None))


def problems(sent: dict) -> list[str]:
    """What is wrong with a request, credentials aside."""
    url = urlsplit(sent["url"])
    request = MockRequest(
        f"{url.scheme}://{url.netloc}",
        sent["method"].lower(),
        url.path,
        args=MultiDict(parse_qsl(url.query, keep_blank_values=True)),
        headers=sent["headers"],
        data=base64.b64decode(sent["body"]) or None,
        content_type=sent["headers"].get("content-type", ""),
    )
    try:
        found = list(api.iter_request_errors(request))
    except OpenAPIError as error:
        found = [error]
    return [
        f"{type(each).__name__}: {each} {each.__cause__ or ''} {[e.message for e in getattr(each.__cause__, 'schema_errors', [])]}"
        for each in found
        if not isinstance(each, SecurityValidationError)
    ]


json.dump([problems(each) for each in given["requests"]], sys.stdout)
