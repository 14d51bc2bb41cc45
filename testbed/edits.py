"""Changes of a line of Kueue's text, with which it is built once more."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUICK_CLIENTS", "WITHOUT_MULTIKUEUE", "Edit", "NotInstalledError"]


class NotInstalledError(RuntimeError):
    """A program is missing; the message says what to run."""


@dataclass(frozen=True, slots=True)
class Edit:
    """In the file at `path` of a module, after the first `after`, the next `old` becomes `new`."""

    module: str
    path: str
    after: str
    old: str
    new: str

    @property
    def package(self) -> str:
        """That of the file."""
        return f"{self.module}/{self.path.rpartition('/')[0]}"

    def of(self, text: str) -> str:
        """The text as edited. Raises NotInstalledError if it has changed too much for that."""
        head, after, tail = text.partition(self.after)
        if self.old not in tail:
            raise NotInstalledError(f"{self.path} of {self.module} has no {self.old!r} after {self.after!r}")
        return head + after + tail.replace(self.old, self.new, 1)


WITHOUT_MULTIKUEUE = Edit(
    module="sigs.k8s.io/kueue",
    path="cmd/kueue/main.go",
    after="func setupControllers(",
    old="if features.Enabled(features.MultiKueue) {",
    new="if features.Enabled(features.MultiKueue) && false {",
)

QUICK_CLIENTS = Edit(
    module="sigs.k8s.io/kueue",
    path="pkg/controller/admissionchecks/multikueue/multikueuecluster.go",
    after="func (c *clientConfig) toRESTConfig()",
    old="return clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig)",
    new=(
        "made, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig); "
        "if err == nil { made.QPS, made.Burst = 1000, 1000 }; "
        "return made, err"
    ),
)
"""What Kueue does by default since 0.19.4 (kueue#15206): its clients of workers are no longer held to client-go's 5 calls a
second and kind."""
