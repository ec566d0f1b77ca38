#!/usr/bin/env bash
# Measures the engine beside the device and other engines, on the same work: builds the engines that can be built and
# prints the table of docs/performance/results.md. docs/performance/method.md explains the rows.
#
#   bench/run.sh [--quick] [--rows 1,3,5] [--rounds 3] [--engines jetcell,rocksdb] [--dir DIRECTORY] ...
#   bench/run.sh --output docs/performance/results.md     also writes that file
#   bench/run.sh build          only builds
#   bench/run.sh --help         all options of the table
#
# Needs fio. The peers also need cmake, pip, a C compiler (WiredTiger, from the source in its Python package), a C++
# compiler, and the RocksDB library of the distribution (Debian: apt install fio cmake librocksdb-dev). A peer that
# cannot be built is reported as missing, with the reason.
#
# Versions: Cargo.toml and Cargo.lock pin the Rust peers and the C code that they bundle; WiredTiger is pinned below. The
# table prints the version that each library reports at run time, and that of fio.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/bench/target
engines=$target/engines
wiredtiger_version=11.3.1
wiredtiger_sha256=95052d1b6fc06921dd617aafa1ba2a773d8dbbbf2eb74f77147290a630e598d0
scripts/check-tools.sh bench/run.sh cc python cargo fio
mkdir -p "$engines"
export CARGO_TARGET_DIR=$target
BENCH_COMMIT=$(git describe --always --dirty 2> /dev/null || echo unknown)
export BENCH_COMMIT

# Two runs at a time would disturb each other.
exec 9> "$target/lock"
flock --nonblock 9 || { echo "bench/run.sh is running already" >&2; exit 2; }

# The engines to build: those of --engines, or all.
wanted=all
arguments=("$@")
for ((at = 0; at < ${#arguments[@]}; at++)); do
    case ${arguments[at]} in
        --engines=*) wanted=${arguments[at]#*=} ;;
        --engines) wanted=${arguments[at + 1]:-all} ;;
        --help | -h) wanted=jetcell ;;
    esac
done

# build_engine NAME [CARGO ARGUMENT...]: builds a binary for one engine, or stores the reason why it cannot.
build_engine() {
    local name=$1
    shift
    if [[ $wanted != all && $name != jetcell && ,$wanted, != *,$name,* ]]; then return; fi
    if [[ $name == wiredtiger ]] && ! build_wiredtiger > "$target/$name.log" 2>&1; then
        missing "$name"
        return
    fi
    if cargo build --release --quiet --locked --manifest-path bench/Cargo.toml "$@" > "$target/$name.log" 2>&1; then
        # A running binary cannot be overwritten, but another file can take its name.
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
            echo "no error message"
    } > "$engines/$1.missing"
    echo "cannot build $1: $(cat "$engines/$1.missing") (full log: $target/$1.log)" >&2
}

# Builds the library and its header in $target/wiredtiger. The check of the version rebuilds after a change of the pin.
build_wiredtiger() {
    export WIREDTIGER_DIR=$target/wiredtiger
    if [[ -f $WIREDTIGER_DIR/libwiredtiger.a && $(cat "$WIREDTIGER_DIR/.pin" 2> /dev/null) == "$wiredtiger_sha256" ]]; then return; fi
    rm -rf "$WIREDTIGER_DIR"
    local source=$target/wiredtiger-$wiredtiger_version
    if [[ ! -d $source ]]; then
        python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$target" \
            "wiredtiger==$wiredtiger_version" || return
        echo "$wiredtiger_sha256  $source.tar.gz" | sha256sum --check --quiet || return
        tar -xzf "$source.tar.gz" -C "$target" || return
    fi
    cmake -S "$source" -B "$WIREDTIGER_DIR" -DCMAKE_BUILD_TYPE=Release -DENABLE_STATIC=1 -DENABLE_SHARED=0 \
        -DENABLE_PYTHON=0 -DENABLE_STRICT=0 -DENABLE_ZSTD=0 -DENABLE_LZ4=0 -DENABLE_SNAPPY=0 -DENABLE_ZLIB=0 \
        -DENABLE_CPPSUITE=0 -DHAVE_UNITTEST=0 || return
    cmake --build "$WIREDTIGER_DIR" --target wiredtiger_static --parallel "$(nproc)" || return
    echo "$wiredtiger_sha256" > "$WIREDTIGER_DIR/.pin"
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
    # Row 10 measures the command.
    CARGO_TARGET_DIR=$PWD/target cargo build --release --quiet --locked -p jetcell
fi
if [[ ${1:-} == build ]]; then exit; fi
exec "$engines/jetcell" table "$@"
