#!/usr/bin/env bash
# Builds what users install, into target/package: a static binary, a Debian package, a container image.
#
#   scripts/package.sh             all three; what this machine lacks a tool for is named and left out, with exit code 1
#   scripts/package.sh binary      jetcell, which needs no library of the system
#   scripts/package.sh deb         jetcell_VERSION_ARCHITECTURE.deb, with manual pages, completions and systemd units (needs
#                                  cargo-deb)
#   scripts/package.sh image       jetcell-image.tar, an OCI image (needs buildah, podman or docker)
#   scripts/package.sh site        site/: the manual, rustdoc, and reports of two short runs on this machine and of a sizing
#
# JETCELL=FILE makes the reports of the site with that program instead of a build.
#
# The binary is linked statically with the C library of this machine: as fast as a dynamic one, and it runs on any Linux of the
# same processor architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-all} in
    all) wanted='binary deb image' ;;
    binary | deb | image | site) wanted=$1 ;;
    *)
        echo "package.sh: '$1' is no package; use binary, deb, image or site" >&2
        exit 2
        ;;
esac
case ${1:-all} in
    all | binary) scripts/check-tools.sh package.sh cc static cargo gzip ;;
    site) scripts/check-tools.sh package.sh cc cargo git python venv ;;
    *) scripts/check-tools.sh package.sh cc static cargo gzip "$wanted" ;;
esac
output=$PWD/target/package
mkdir -p "$output"

# Makes output/site. Reports of runs that fail or have doubts are samples, too.
build_site() {
    local site=$output/site jetcell work
    if [ -n "${JETCELL:-}" ]; then
        jetcell=$(realpath "$JETCELL")
    else
        cargo build --release --locked -p jetcell --features full
        jetcell=$PWD/target/release/jetcell
    fi
    scripts/build-book.sh
    rm -rf "$site" target/doc
    cargo doc --locked --workspace --all-features --no-deps --quiet
    mkdir -p "$site/reports"
    cp -r target/book "$site/manual"
    cp -r target/doc "$site/rustdoc"
    work=$(mktemp -d "$output/runs-XXXXXX")
    (
        cd "$work"
        "$jetcell" test performance --dir run --size 1GiB --duration 20s --repeat 3 --output one --quiet || [[ $? = 1 ]]
        "$jetcell" test performance --dir run --open --threads 8 --duration 20s --repeat 3 --output two --quiet || [[ $? = 1 ]]
        "$jetcell" compare one two --format html > "$site/reports/compare.html" || [[ $? = 1 ]]
        cp one/report.html "$site/reports/performance.html"
        "$jetcell" size --example > site.toml
        "$jetcell" size --config site.toml --html "$site/reports/size.html" > size.txt
    )
    rm -r "$work"
    cat > "$site/index.html" << 'HTML'
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Jetcell</title>
<body style="font-family: sans-serif; max-width: 40em; margin: 2em auto; padding: 0 1em; line-height: 1.5">
<h1>Jetcell</h1>
<ul>
<li><a href="manual/index.html">Manual</a></li>
<li>Rust documentation: <a href="rustdoc/ese_engine/index.html">engine</a>, <a href="rustdoc/jetcell_export/index.html">export</a></li>
<li>Sample reports: <a href="reports/performance.html">performance test</a>, <a href="reports/compare.html">comparison of runs</a>,
<a href="reports/size.html">sizing of storage</a></li>
</ul>
HTML
    # `cargo doc` checks the links of rustdoc's pages. Some of them work only with scripts.
    python3 scripts/check-links.py "$site" rustdoc
}
if [ "$wanted" = site ]; then
    build_site
    exit
fi

for package in $wanted; do
    if [ "$package" != binary ] && ! without=$(scripts/check-tools.sh package.sh "$package" 2>&1); then
        echo "$without, for all packages" >&2
    fi
done
triple=$(rustc -vV | sed -n 's/^host: //p')

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
