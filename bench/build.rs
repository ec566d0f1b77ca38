//! Versions of the peers from `Cargo.lock`, and the parts in C and C++.

#[cfg(feature = "wiredtiger")]
use std::env;
use std::fs;

/// Packages whose versions the results state.
const PACKAGES: [&str; 5] = ["ese-engine", "rusqlite", "heed", "redb", "fjall"];

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=BENCH_COMMIT");
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock is in the directory of Cargo.toml");
    for package in PACKAGES {
        let name = package.to_uppercase().replace('-', "_");
        println!("cargo::rustc-env=BENCH_VERSION_{name}={}", locked_version(&lock, package));
    }
    #[cfg(feature = "wiredtiger")]
    wiredtiger();
    #[cfg(feature = "rocksdb")]
    rocksdb();
}

/// The version of a package in the lock file.
fn locked_version(lock: &str, package: &str) -> String {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    version
        .map_or_else(|| panic!("Cargo.lock does not contain {package}"), |(version, _)| version.to_string())
}

/// Names for WiredTiger's function pointers, and its library, which `run.sh` builds in `WIREDTIGER_DIR`.
#[cfg(feature = "wiredtiger")]
fn wiredtiger() {
    println!("cargo::rerun-if-env-changed=WIREDTIGER_DIR");
    println!("cargo::rerun-if-changed=src/engines/wiredtiger.c");
    let built = env::var("WIREDTIGER_DIR").expect("WIREDTIGER_DIR must be the build directory of WiredTiger");
    cc::Build::new().file("src/engines/wiredtiger.c").include(format!("{built}/include")).compile("bench_wt");
    println!("cargo::rustc-link-search=native={built}");
    println!("cargo::rustc-link-lib=static=wiredtiger");
    for library in ["pthread", "dl", "rt", "m"] {
        println!("cargo::rustc-link-lib={library}");
    }
}

/// The function that reports RocksDB's version. The library itself is the distribution's.
#[cfg(feature = "rocksdb")]
fn rocksdb() {
    println!("cargo::rerun-if-changed=src/engines/rocksdb_version.cc");
    cc::Build::new().cpp(true).std("c++17").file("src/engines/rocksdb_version.cc").compile("bench_rocksdb");
}
