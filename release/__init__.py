"""Makes everything that a release has out of one commit: `make release VERSION=0.1.0`, docs/release.md.

`source` is the commit as a folder, `artefacts` the order in which things are made of it. `archives`, `crds`, `bill` and `notes`
make one kind each. Nothing in `multikueue` imports this, and no wheel has it.
"""
