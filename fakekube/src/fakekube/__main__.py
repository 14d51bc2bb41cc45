"""`python -m fakekube`: serves one empty cluster until Ctrl-C or SIGTERM, and writes a kubeconfig for it."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import anyio
import yaml

from fakekube.serve import serve

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fakekube", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, default=Path("fakekube.kubeconfig"), help="the file to write")
    parser.add_argument("--port", type=int, default=0, help="the port on loopback (any)")
    parser.add_argument("--rbac", action="store_true", help="enforce roles; otherwise every user may do everything")
    return parser


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    anyio.run(_serve, options.kubeconfig, options.port, options.rbac)


async def _serve(kubeconfig: Path, port: int, rbac: bool) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with serve(port=port, rbac=rbac) as server:
            file = anyio.Path(kubeconfig)
            await file.touch(mode=0o600)  # it has a token
            await file.write_text(yaml.safe_dump(server.kubeconfig(), sort_keys=False))
            print(f"{server.url}\nexport KUBECONFIG={await file.absolute()}", flush=True)
            await anext(signals)


if __name__ == "__main__":
    main()
