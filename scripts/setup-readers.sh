#!/bin/sh
# Installs three independent ESE readers and a validator of JSON schemas, with pinned versions, into target/readers-venv
# (JETCELL_READERS_VENV). Does nothing if they are installed. Tests use them to read the files that the engine writes (see
# tests/src/readers), and what fleets write.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
venv=${JETCELL_READERS_VENV:-$root/target/readers-venv}
pins='libesedb-python==20260704 dissect.esedb==3.18 impacket==0.13.1 jsonschema==4.23.0'
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.pins" 2>/dev/null)" = "$pins" ]; then
    echo "readers are ready: $venv"
    exit 0
fi
"$root/scripts/check-tools.sh" setup-readers.sh python venv
python3 -m venv "$venv"
# libesedb-python has no wheels for every platform: a C compiler and the Python headers may be needed.
# shellcheck disable=SC2086
"$venv/bin/pip" install --quiet --disable-pip-version-check $pins
"$venv/bin/python" -c 'import pyesedb, dissect.esedb, impacket.ese, jsonschema'
printf '%s' "$pins" > "$venv/.pins"
echo "readers are ready: $venv"
