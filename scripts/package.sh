#!/usr/bin/env bash
# Builds what users install, into target/package: a static binary, a Debian package, a container image.
#
#   scripts/package.sh             all three; what this machine lacks a tool for is named and left out, with exit code 1
#   scripts/package.sh binary      jetcell, which needs no library of the system
#   scripts/package.sh deb         jetcell_VERSION_ARCHITECTURE.deb, with manual pages and completions (needs cargo-deb)
#   scripts/package.sh image       jetcell-image.tar, an OCI image (needs buildah, podman or docker)
#
# The binary is linked statically with the C library of this machine: as fast as a dynamic one, and it runs on any Linux of the
# same processor architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-all} in
    all) wanted='binary deb image' ;;
    binary | deb | image) wanted=$1 ;;
    *)
        echo "package.sh: '$1' is no package; use binary, deb or image" >&2
        exit 2
        ;;
esac
case ${1:-all} in
    all | binary) scripts/check-tools.sh package.sh cc static cargo gzip ;;
    *) scripts/check-tools.sh package.sh cc static cargo gzip "$wanted" ;;
esac
for package in $wanted; do
    if [ "$package" != binary ] && ! without=$(scripts/check-tools.sh package.sh "$package" 2>&1); then
        echo "$without, for all packages" >&2
    fi
done
output=$PWD/target/package
triple=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$output"

RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target "$triple" -p jetcell --features full
install -s -m 755 "target/$triple/release/jetcell" "$output/jetcell"
if ldd "$output/jetcell" 2> /dev/null | grep -q '=>'; then
    echo 'package.sh: the binary needs libraries of the system; install the static C library (Debian: libc6-dev)' >&2
    exit 2
fi
rm -rf "$output/man" "$output/completions"
mkdir -p "$output/completions"
"$output/jetcell" man "$output/man"
gzip -9n "$output"/man/*.1
"$output/jetcell" completions bash > "$output/completions/jetcell"
"$output/jetcell" completions zsh > "$output/completions/_jetcell"
"$output/jetcell" completions fish > "$output/completions/jetcell.fish"

made="$output/jetcell"
lacking=
for package in $wanted; do
    case $package in
        binary) ;;
        deb)
            if ! cargo deb --version > /dev/null 2>&1; then
                lacking="$lacking, deb (cargo install cargo-deb)"
                continue
            fi
            rm -f "$output"/*.deb
            cargo deb --quiet --package jetcell --no-build --no-strip --target "$triple" --output "$output/" > /dev/null
            made="$made $(echo "$output"/*.deb)"
            ;;
        image)
            image=$output/jetcell-image.tar
            rm -f "$image"
            if command -v buildah > /dev/null; then
                buildah build --quiet --tag jetcell --file Containerfile "$output" > /dev/null
                buildah push --quiet jetcell "oci-archive:$image:jetcell"
            elif command -v podman > /dev/null; then
                podman build --quiet --tag jetcell --file Containerfile "$output" > /dev/null
                podman save --quiet --format oci-archive --output "$image" jetcell
            elif command -v docker > /dev/null; then
                docker build --quiet --tag jetcell --file Containerfile "$output" > /dev/null
                docker save --output "$image" jetcell
            else
                lacking="$lacking, image (buildah, podman or docker)"
                continue
            fi
            made="$made $image"
            ;;
    esac
done
ls -sh $made
if [ -n "$lacking" ]; then
    echo "package.sh: not made for want of a tool: ${lacking#, }" >&2
    exit 1
fi
