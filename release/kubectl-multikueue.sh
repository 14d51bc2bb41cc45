#!/bin/sh
# kubectl multikueue, as Krew installs it: the wheel beside this file, in an environment of its own that the first call makes.
set -eu
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
wheel=$(echo "$here"/multikueue-*.whl)
home=${XDG_CACHE_HOME:-$HOME/.cache}/multikueue/$(basename "$wheel" .whl)

if [ ! -e "$home" ]; then
  ${PYTHON:-python3} -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "kubectl multikueue needs Python 3.11 or newer: set PYTHON" >&2; exit 1; }
  echo "kubectl multikueue: installing what it needs, once" >&2
  new=$home.$$
  trap 'rm -rf "$new"' EXIT
  mkdir -p "$(dirname "$home")"
  "${PYTHON:-python3}" -m venv "$new"
  "$new/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement "$here/requirements.txt"
  "$new/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index "$wheel"
  # Two first calls at a time: the second leaves what the first has made.
  [ -e "$home" ] || mv "$new" "$home"
fi
exec "$home/bin/python" -c 'import sys; from multikueue.cli import main; sys.argv[0] = "kubectl-multikueue"; main()' "$@"
