"""A Job of one container, made of what is typed in place of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

__all__ = ["GPU", "QuickJob"]

GPU = "nvidia.com/gpu"
"""The resource that `--gpu 1` means."""


@dataclass(frozen=True)
class QuickJob:
    """The options that stand for a file. Amounts are Kubernetes' quantities, for the one container."""

    image: Annotated[
        str, typer.Option("--image", help="Image of a Job of one container, in place of a file.", show_default=False)
    ] = ""
    name: Annotated[
        str, typer.Option("--name", help="Name of that Job. (default: made of the image)", show_default=False)
    ] = ""
    cpu: Annotated[str, typer.Option("--cpu", help="CPUs it requests, such as 4 or 500m.", show_default=False)] = ""
    memory: Annotated[str, typer.Option("--memory", help="Memory it requests, such as 8Gi.", show_default=False)] = ""
    gpu: Annotated[
        str, typer.Option("--gpu", help=f"GPUs it gets: a number of {GPU}, or RESOURCE=NUMBER.", show_default=False)
    ] = ""

    def is_given(self) -> bool:
        """Whether any of them is. Raises BadParameter without an image, which the others need."""
        if not self.image and any((self.name, self.cpu, self.memory, self.gpu)):
            raise typer.BadParameter("--name, --cpu, --memory and --gpu are of a Job without a file: give --image")
        return bool(self.image)

    def tree(self, command: Sequence[str]) -> dict[str, Any]:
        """The Job, as `kubectl create job` makes it, with requests. Without a `command` the image's own runs."""
        container: dict[str, Any] = {"name": "main", "image": self.image}
        if command:
            container["command"] = list(command)
        if resources := self._resources():
            container["resources"] = resources
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name} if self.name else {"generateName": f"{self._word()}-"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }

    def _resources(self) -> dict[str, dict[str, str]]:
        requests = {name: amount for name, amount in (("cpu", self.cpu), ("memory", self.memory)) if amount}
        resource, _, number = self.gpu.rpartition("=")
        # What is no resource of Kubernetes itself is requested by its limit.
        limits = {resource or GPU: number} if number else {}
        return {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}

    def _word(self) -> str:
        """The last part of the image's name, without tag and digest, as a name may begin."""
        word = self.image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
        return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in word).strip("-") or "job"
