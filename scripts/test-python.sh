#!/bin/sh
# Builds the Python package and installs it with pinned versions of what its tests need into target/python-venv, then runs
# python/tests. The build uses the profile of the tests, whose crates are mostly built; `pip install ./python` builds with optimisation.
set -eu
cd "$(dirname "$0")/.."
scripts/check-tools.sh test-python.sh cc python venv cargo
venv=$PWD/target/python-venv
pins='maturin==1.16.0 pytest==9.2.0 dissect.esedb==3.18 pyarrow==26.0.1 duckdb==2.0.1 pandas==3.1.1 polars==2.1.0'
if [ "$(cat "$venv/.pins" 2> /dev/null)" != "$pins" ]; then
    python3 -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $pins
    printf '%s' "$pins" > "$venv/.pins"
fi
# The build finds maturin in the environment.
PATH="$venv/bin:$PATH" MATURIN_PEP517_ARGS='--profile dev' "$venv/bin/pip" install --quiet --disable-pip-version-check \
    --no-build-isolation --no-deps --force-reinstall ./python
exec "$venv/bin/python" -m pytest --quiet -p no:cacheprovider python/tests "$@"
