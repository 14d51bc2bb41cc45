"""The fields of Kubernetes' own kinds, read from kubernetes_asyncio's model classes as plain data.

The library has one generated module per model, all of the same form. Their text is parsed and not executed: an import
of one would load a client for the whole API, which may disturb the code under test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["descriptions_of", "fields_of"]

_TABLE = r"^    {} = (\{{.*?\}})$"
_TYPES = re.compile(_TABLE.format("openapi_types"), re.MULTILINE | re.DOTALL)
_NAMES = re.compile(_TABLE.format("attribute_map"), re.MULTILINE | re.DOTALL)
_GETTER = re.compile(r'^    @property\n    def (\w+)\(self\):\n        ("""Gets the .*?""")', re.MULTILINE | re.DOTALL)


@cache
def fields_of(model: str) -> Mapping[str, str]:
    """The JSON names of a model's fields and their types.

    A type is `str`, `int`, `float`, `bool`, `datetime`, `object` (anything), the name of another model (`V1JobSpec`), or
    of these `list[TYPE]` or `dict(str, TYPE)`. Raises LookupError if there is no such model.
    """
    text = _text(model)
    types = _table(_TYPES, text)
    return {name: types[attribute] for attribute, name in _table(_NAMES, text).items()}


@cache
def descriptions_of(model: str) -> Mapping[str, str]:
    """The library's descriptions of a model's fields, by their JSON names. Raises LookupError like `fields_of`."""
    text = _text(model)
    described = {name: _description(ast.literal_eval(said)) for name, said in _GETTER.findall(text)}
    return {name: described[attribute] for attribute, name in _table(_NAMES, text).items()}


def _table(pattern: re.Pattern[str], text: str) -> Mapping[str, str]:
    found = pattern.search(text)
    table: Mapping[str, str] = ast.literal_eval(found[1]) if found else {}
    return table


def _description(text: str) -> str:
    """The text between "Gets the ..." and the description of the result."""
    _, _, rest = text.partition("# noqa: E501")
    described, _, _ = rest.partition(":return:")
    return described.replace("# noqa: E501", "").strip()


def _text(model: str) -> str:
    try:
        return (_folder() / f"{_snake(model)}.py").read_text("utf-8")
    except FileNotFoundError as error:
        raise LookupError(model) from error


@cache
def _folder() -> Path:
    spec = find_spec("kubernetes_asyncio")
    if spec is None or not spec.submodule_search_locations:
        raise LookupError("kubernetes_asyncio is not installed")
    return Path(spec.submodule_search_locations[0], "client", "models")


def _snake(name: str) -> str:
    """`v1_api_service` for `V1APIService`: the library's name of the module."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()
