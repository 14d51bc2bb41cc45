"""CustomResourceDefinition (v1): the fields that say which versions of a kind it serves."""

from __future__ import annotations

from multikueue.api.meta import Object, Value


class Version(Value):
    name: str = ""
    served: bool = False


class Conversion(Value):
    strategy: str = "None"


class DefinitionSpec(Value):
    group: str = ""
    versions: tuple[Version, ...] = ()
    conversion: Conversion = Conversion()

    @property
    def is_converted(self) -> bool:
        """Whether something translates between its versions, besides their name."""
        return self.conversion.strategy != "None"


class Definition(Object):
    spec: DefinitionSpec = DefinitionSpec()
