//! Tests of memory limits.

use super::*;

#[test]
fn the_smallest_machine_or_control_group_limit_applies() {
    let root = tempfile::tempdir().unwrap();
    let write_file = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    assert_eq!(smallest(root.path()), None);
    write_file("proc/meminfo", "MemFree: 5 kB\nMemTotal:       4096 kB\n");
    let limit = || smallest(root.path()).unwrap().bytes;
    assert_eq!(limit(), 4096 << 10);
    write_file("proc/self/cgroup", "0::/outer/inner\n");
    write_file("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    assert_eq!(limit(), 4096 << 10);
    write_file("sys/fs/cgroup/outer/memory.max", "1048576\n");
    assert_eq!(limit(), 1 << 20);
    write_file("proc/self/cgroup", "7:cpu,cpuacct:/a\n5:memory:/b\n0::/\n");
    write_file("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "65536\n");
    assert_eq!(limit(), 64 << 10);
    assert!(smallest(root.path()).unwrap().source.ends_with("memory/b/memory.limit_in_bytes"));
}

#[test]
fn this_machine_has_a_memory_limit() {
    assert!(memory_limit().is_some_and(|limit| limit.bytes > 1 << 20));
}
