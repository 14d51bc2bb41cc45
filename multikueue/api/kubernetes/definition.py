"""CustomResourceDefinition (v1): the fields that say which kind it defines."""

from __future__ import annotations

from multikueue.api.meta import Object, Value


class Names(Value):
    plural: str = ""
    kind: str = ""


class Version(Value):
    name: str = ""
    served: bool = False
    storage: bool = False


class Conversion(Value):
    strategy: str = "None"


class DefinitionSpec(Value):
    group: str = ""
    names: Names = Names()
    scope: str = ""
    versions: tuple[Version, ...] = ()
    conversion: Conversion = Conversion()

    @property
    def is_converted(self) -> bool:
        """Whether something translates between its versions, besides their name."""
        return self.conversion.strategy != "None"


class Definition(Object):
    spec: DefinitionSpec = DefinitionSpec()
