#!/usr/bin/env bash
# The engine beside the device and other engines, on the same work: builds what can be built and prints the table of
# docs/performance/results.md.
#
#   bench/run.sh [--quick] [--rows 1,3,5] [--rounds 3] [--engines jetcell,rocksdb] [--dir DIRECTORY] ...
#   bench/run.sh build          only builds
#   bench/run.sh --help         all options of the table
#
# Needs fio; for peers also cmake, pip and a C compiler (WiredTiger, from the source in its Python package) and the
# RocksDB library of the distribution (Debian: apt install fio cmake librocksdb-dev). A peer that cannot be built is
# reported as missing, with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/bench/target
engines=$target/engines
wiredtiger_version=11.3.1
mkdir -p "$engines"
export CARGO_TARGET_DIR=$target

# Two at a time would measure each other.
exec 9> "$target/lock"
flock --nonblock 9 || { echo "bench/run.sh is running already" >&2; exit 2; }

# Which engines: those asked for, or all.
wanted=all
arguments=("$@")
for ((at = 0; at < ${#arguments[@]}; at++)); do
    case ${arguments[at]} in
        --engines=*) wanted=${arguments[at]#*=} ;;
        --engines) wanted=${arguments[at + 1]:-all} ;;
        --help | -h) wanted=jetcell ;;
    esac
done

# build_engine NAME [FEATURE...]: a binary of its own for each engine, or the reason why there is none.
build_engine() {
    local name=$1
    shift
    if [[ $wanted != all && $name != jetcell && ,$wanted, != *,$name,* ]]; then return; fi
    if [[ $name == wiredtiger ]] && ! build_wiredtiger > "$target/$name.log" 2>&1; then
        missing "$name"
        return
    fi
    if cargo build --release --quiet --locked --manifest-path bench/Cargo.toml "$@" > "$target/$name.log" 2>&1; then
        # A running binary cannot be written, but another can take its name.
        cp "$target/release/jetcell-bench" "$engines/$name.new"
        mv "$engines/$name.new" "$engines/$name"
        rm -f "$engines/$name.missing"
    else
        missing "$name"
    fi
}

missing() {
    rm -f "$engines/$1"
    {
        grep -m 1 -iE 'cannot find|not found|no such' "$target/$1.log" ||
            grep -m 1 -i error "$target/$1.log" ||
            echo "it says nothing"
    } > "$engines/$1.missing"
    echo "cannot build $1: $(cat "$engines/$1.missing") (all of it: $target/$1.log)" >&2
}

# The library and its header, in $target/wiredtiger.
build_wiredtiger() {
    export WIREDTIGER_DIR=$target/wiredtiger
    if [[ -f $WIREDTIGER_DIR/libwiredtiger.a ]]; then return; fi
    local source=$target/wiredtiger-$wiredtiger_version
    if [[ ! -d $source ]]; then
        python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$target" \
            "wiredtiger==$wiredtiger_version" || return
        tar -xzf "$source.tar.gz" -C "$target" || return
    fi
    cmake -S "$source" -B "$WIREDTIGER_DIR" -DCMAKE_BUILD_TYPE=Release -DENABLE_STATIC=1 -DENABLE_SHARED=0 \
        -DENABLE_PYTHON=0 -DENABLE_STRICT=0 -DENABLE_ZSTD=0 -DENABLE_LZ4=0 -DENABLE_SNAPPY=0 -DENABLE_ZLIB=0 \
        -DENABLE_CPPSUITE=0 -DHAVE_UNITTEST=0 || return
    cmake --build "$WIREDTIGER_DIR" --target wiredtiger_static --parallel "$(nproc)"
}

build_engine jetcell
if [[ ! -x $engines/jetcell ]]; then
    cat "$target/jetcell.log" >&2
    exit 2
fi
for name in wiredtiger rocksdb sqlite lmdb redb fjall; do
    build_engine "$name" --features "$name"
done
if [[ $wanted == all || ,$wanted, == *,jetcell,* ]]; then
    # Row 10 measures the command itself.
    CARGO_TARGET_DIR=$PWD/target cargo build --release --quiet --locked -p jetcell
fi
if [[ ${1:-} == build ]]; then exit; fi
exec "$engines/jetcell" table "$@"
