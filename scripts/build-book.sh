#!/usr/bin/env bash
# Builds the manual as a site in target/book, and checks every link in it. A warning or a broken link is a failure.
#
#   scripts/build-book.sh
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$(scripts/setup-mdbook.sh):$PATH
source=target/book-source
rm -rf "$source" target/book
mkdir -p "$source/src"

# The pages are in docs/ and in the root, so the chapters are collected in one tree with the paths of the repository.
mkdir -p "$source/src/python"
cp -r docs "$source/src/docs"
cp ./*.md "$source/src/"
cp python/README.md "$source/src/python/"
# Links to source files lead to copies of them.
for file in $(git ls-files '*.md' | xargs grep -hoE '\]\([A-Za-z0-9_./-]*\.(rs|sh|py|toml)\)' | sed 's/^](//; s/)$//' | sort -u); do
    file=${file##*../}
    if [ -f "$file" ]; then install -D -m 644 "$file" "$source/src/$file"; fi
done
sed -e 's|](\.\./|](|' -e t -e 's|](\([a-z]\)|](docs/\1|' docs/SUMMARY.md > "$source/src/SUMMARY.md"
rm "$source/src/docs/SUMMARY.md"
mv "$source/src/docs/book.css" "$source/"
missing=$(cd "$source/src" && git -C "$OLDPWD" ls-files docs '*.md' | grep '\.md$' | sort -u | while read -r page; do
    [ ! -f "$page" ] || grep -qF "($page)" SUMMARY.md || echo "$page"
done)
if [ -n "$missing" ]; then
    echo "these pages are not in docs/SUMMARY.md: $missing" >&2
    exit 1
fi
cat > "$source/book.toml" <<'TOML'
[book]
title = "Jetcell"
language = "en"

[build]
build-dir = "../book"
create-missing = false
# README.md stays README.html, as links name it.
use-default-preprocessors = false

[output.html]
default-theme = "light"
additional-css = ["book.css"]
no-section-label = true
TOML
log=$(mdbook build "$source" 2>&1) || { echo "$log" >&2; exit 1; }
if grep -qE 'WARN|ERROR' <<< "$log"; then
    echo "$log" >&2
    exit 1
fi
python3 scripts/check-links.py target/book
