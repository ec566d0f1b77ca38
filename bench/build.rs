//! Names for WiredTiger's calls, and its library, which `run.sh` builds in `WIREDTIGER_DIR`.

fn main() {
    println!("cargo::rerun-if-env-changed=WIREDTIGER_DIR");
    #[cfg(feature = "wiredtiger")]
    {
        let built = std::env::var("WIREDTIGER_DIR").expect("WIREDTIGER_DIR is where WiredTiger was built");
        println!("cargo::rerun-if-changed=src/engines/wiredtiger.c");
        cc::Build::new()
            .file("src/engines/wiredtiger.c")
            .include(format!("{built}/include"))
            .compile("bench_wt");
        println!("cargo::rustc-link-search=native={built}");
        println!("cargo::rustc-link-lib=static=wiredtiger");
        for library in ["pthread", "dl", "rt", "m"] {
            println!("cargo::rustc-link-lib={library}");
        }
    }
}
