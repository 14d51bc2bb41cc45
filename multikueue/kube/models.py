"""The fields of Kubernetes' own kinds, read from kubernetes_asyncio's model classes as plain data.

The library has a module per model, beside a package that imports all of them. We load the few that are asked for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from multikueue.kube.library import CLIENT, bare_package, spare_models

__all__ = ["descriptions_of", "fields_of"]

MODELS = f"{CLIENT}.models"


def fields_of(model: str) -> Mapping[str, str]:
    """The JSON names of a model's fields and their types.

    A type is `str`, `int`, `float`, `bool`, `datetime`, `object` (anything), the name of another model (`V1JobSpec`), or
    of these `list[TYPE]` or `dict(str, TYPE)`. Raises LookupError if there is no such model.
    """
    found = _class(model)
    return {name: found.openapi_types[attribute] for attribute, name in found.attribute_map.items()}


def descriptions_of(model: str) -> Mapping[str, str]:
    """What the library says of a model's fields, by their JSON names. Raises LookupError like `fields_of`."""
    found = _class(model)
    described = {name: getattr(found, attribute).__doc__ for attribute, name in found.attribute_map.items()}
    return {name: _description(text or "") for name, text in described.items()}


def _description(text: str) -> str:
    """What stands between "Gets the ..." and what is returned."""
    _, _, rest = text.partition("# noqa: E501")
    described, _, _ = rest.partition(":return:")
    return described.replace("# noqa: E501", "").strip()


def _class(model: str) -> Any:
    _find_package()
    try:
        return getattr(import_module(f"{MODELS}.{_snake(model)}"), model)
    except ModuleNotFoundError as error:
        raise LookupError(model) from error


def _find_package() -> None:
    """Put the package of the models in place, without running it if nobody has."""
    spare_models()
    if MODELS not in sys.modules:
        bare_package(MODELS, list(sys.modules[CLIENT].__path__))


def _snake(name: str) -> str:
    """`v1_api_service` for `V1APIService`, as the library calls its files."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()
