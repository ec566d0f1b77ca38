use super::*;

#[test]
fn hostile_sizes_saturate() {
    let space = |available_pages, leaf_pages, leaf_free_bytes| TreeSpace {
        name: "t".to_owned(),
        kind: "table",
        tree: 9,
        root: 9,
        parent_root: 1,
        owned_pages: 0,
        owned_extents: 0,
        available_pages,
        available_extents: 1,
        leaf_pages,
        internal_pages: 0,
        space_pages: 0,
        leaked_pages: 1,
        fill: None,
        fragmentation: None,
        incomplete: false,
        leaf_free_bytes,
    };
    let summary = SpaceSummary {
        page_size: 32768,
        file_pages: u32::MAX,
        last_owned: u32::MAX,
        used_pages: 0,
        available_pages: 0,
        leaked_pages: 0,
        damaged_pages: 0,
        beyond_owned: 0,
    };
    let spaces = vec![space(1 << 50, 1, u64::MAX), space(u64::MAX, u64::MAX, 1), space(2, 1, 7)];
    let mut text = Vec::new();
    write(spaces, &summary, &mut DumpOutput::json(&mut text)).unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["bytes"], &lines[1]["white_bytes"]), (&u64::MAX.into(), &u64::MAX.into()));
    assert_eq!((&lines[2]["bytes"], &lines[2]["white_bytes"]), (&(4 * 32768).into(), &(65536 + 7).into()));
    assert_eq!(lines[3]["white_bytes"], u64::MAX);
}
