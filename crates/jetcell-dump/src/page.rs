//! Description of one page: header, tags, and nodes.

use std::fmt;

use ese_format::catalog::{CATALOG, CATALOG_SHADOW, CatalogRow};
use ese_format::long_value::{LongValueKey, LongValueRoot};
use ese_format::page::{Node, NodeFlags, PageFlags, validate};
use ese_format::record::Record;
use ese_format::space::{Extent, SpaceHeader, SplitReserve, auto_increment};
use jetcell_input::Printable;
use jetcell_input::hex::hex;
use serde::Serialize;

use crate::database::{DumpedDatabase, LoadedPage, PageState};
use crate::values::{FlagNames, short_hex, short_key};
use crate::{DumpedValue, NamedValues};

/// A dumped page, with its header fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "page")]
pub(crate) struct PageDump {
    pub(crate) page: u32,
    pub(crate) offset: u64,
    pub(crate) state: PageState,
    /// Header of the page. Absent for pages that are zero or cannot be read.
    header: Option<PageHeaderDump>,
    /// Contents of the external header, if details are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_header: Option<NamedValues>,
    /// Nodes of the page, if details are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeDump>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct PageHeaderDump {
    checksum: String,
    tree: u32,
    /// Name of the tree, from the catalog.
    name: Option<String>,
    role: String,
    db_time: u64,
    previous: u32,
    next: u32,
    flags: DumpedValue,
    flush_type: u32,
    /// Number of free bytes. The next two fields are the number of these bytes that rollbacks may still need, and the
    /// start of the contiguous free area.
    free: usize,
    uncommitted_free: usize,
    free_start: usize,
    tags: usize,
    reserved_tags: usize,
    node_count: usize,
    /// First error in the page's structure.
    fault: Option<String>,
}

/// A node on a dumped page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NodeDump {
    tag: usize,
    /// Offset of the node's line in the page.
    offset: usize,
    length: usize,
    flags: Vec<&'static str>,
    /// Number of key bytes stored in the page's prefix.
    prefix_length: usize,
    key: String,
    data: String,
    /// Decoded data: a child page, an extent, part of a long value, or the columns of a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<NamedValues>,
    #[serde(skip)]
    text: String,
}

impl PageDump {
    pub(crate) fn new(
        database: &DumpedDatabase<'_>,
        image: &LoadedPage,
        name: Option<&str>,
        details: bool,
    ) -> PageDump {
        let shown = !image.bytes.is_empty() && image.state != PageState::Zero;
        PageDump {
            page: image.number,
            offset: database.offset_of(image.number),
            state: image.state.clone(),
            header: shown.then(|| PageHeaderDump::new(database, image, name)),
            external_header: (shown && details).then(|| external_header(image)),
            nodes: (shown && details).then(|| nodes(image)),
        }
    }
}

impl PageHeaderDump {
    fn new(database: &DumpedDatabase<'_>, image: &LoadedPage, name: Option<&str>) -> PageHeaderDump {
        let page = image.page();
        let flags = page.flags();
        let checksum = image.bytes.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        let names = flags.iter_names().map(|(name, _)| name).filter(|name| *name != "FLUSH_TYPE").collect();
        PageHeaderDump {
            checksum: format!("{checksum:016x}"),
            tree: page.tree().0,
            name: name.map(str::to_owned),
            role: role(flags),
            db_time: page.db_time().0,
            previous: page.prev().map_or(0, ese_format::PageNumber::get),
            next: page.next().map_or(0, ese_format::PageNumber::get),
            flags: DumpedValue::Flags(flags.bits().into(), names),
            flush_type: (flags & PageFlags::FLUSH_TYPE).bits()
                >> PageFlags::FLUSH_TYPE.bits().trailing_zeros(),
            free: page.free_bytes(),
            uncommitted_free: page.uncommitted_free(),
            free_start: page.free_start(),
            tags: page.tag_count(),
            reserved_tags: page.first_node_tag(),
            node_count: page.node_count(),
            fault: validate(&image.bytes, database.page_size).err().map(|fault| fault.to_string()),
        }
    }
}

/// Returns the role of a page, such as `table leaf` or `index space root`.
pub(crate) fn role(flags: PageFlags) -> String {
    let has_flag = |flag| flags.contains(flag);
    let kind = match (has_flag(PageFlags::INDEX), has_flag(PageFlags::LONG_VALUE)) {
        (true, _) => "index",
        (_, true) => "long-value",
        _ => "table",
    };
    let space = if has_flag(PageFlags::SPACE) { " space" } else { "" };
    let place = match (has_flag(PageFlags::EMPTY), has_flag(PageFlags::ROOT), has_flag(PageFlags::LEAF)) {
        (true, ..) => "given back",
        (_, true, true) => "root leaf",
        (_, true, false) => "root",
        (_, false, true) => "leaf",
        _ => "internal",
    };
    format!("{kind}{space} {place}")
}

fn named(fields: Vec<(&str, DumpedValue)>) -> NamedValues {
    NamedValues(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn extent_values(extent: Extent) -> Vec<(&'static str, DumpedValue)> {
    let number = |number: u32| DumpedValue::Number(number.into());
    vec![
        ("first", number(extent.first().get())),
        ("last", number(extent.last.get())),
        ("pages", number(extent.count)),
    ]
}

/// Decodes tag 0 of the page if it is a space header or a split reserve.
fn external_header(image: &LoadedPage) -> NamedValues {
    let page = image.page();
    let bytes = page.external_header();
    let mut values = vec![("bytes", DumpedValue::Bytes(bytes.to_vec()))];
    if page.is_root() && page.flags().contains(PageFlags::SPACE) {
        let reserve = SplitReserve::decode(bytes).unwrap_or_default().extents.into_iter().flatten();
        let reserve = reserve.map(|extent| DumpedValue::Group(named(extent_values(extent))));
        values.push(("split_reserve", DumpedValue::List(reserve.collect())));
    } else if page.is_root()
        && let Ok(header) = SpaceHeader::decode(bytes)
    {
        let number = |number: u32| DumpedValue::Number(number.into());
        let last = if header.counts_last_allocation { "last_allocation" } else { "primary_pages" };
        values.push((last, number(header.primary_pages)));
        values.push(("parent_root", number(header.parent.map_or(0, ese_format::PageNumber::get))));
        values.push(("non_unique", DumpedValue::Number(header.non_unique.into())));
        match (header.owned_root(), header.available_root()) {
            (Some(owned), Some(available)) => {
                values.push(("owned_root", number(owned.get())));
                values.push(("available_root", number(available.get())));
            }
            _ => values.push(("available_bitmap", number(header.owned_root_or_bitmap))),
        }
        if let Some(value) = auto_increment(bytes) {
            values.push(("auto_increment", DumpedValue::Number(value)));
        }
    }
    let prefix = page.prefix();
    if !prefix.is_empty() {
        values.push(("prefix", DumpedValue::Bytes(prefix.to_vec())));
    }
    named(values)
}

/// Returns all nodes. A node that cannot be decoded has only an offset and a length.
pub(crate) fn nodes(image: &LoadedPage) -> Vec<NodeDump> {
    let page = image.page();
    (0..page.node_count())
        .map(|index| {
            let tag = index + page.first_node_tag();
            let place = page.line_range(tag).unwrap_or(0..0);
            let (offset, length) = (place.start, place.len());
            let Some(node) = page.node(index) else {
                let meaning = named(vec![("fault", DumpedValue::Text("cannot be decoded".to_owned()))]);
                let (flags, text) = (Vec::new(), "cannot be decoded".to_owned());
                let (key, data, prefix_length) = (String::new(), String::new(), 0);
                return NodeDump {
                    tag,
                    offset,
                    length,
                    flags,
                    prefix_length,
                    key,
                    data,
                    meaning: Some(meaning),
                    text,
                };
            };
            let meaning = meaning(image, &node);
            let key = node.key_to_vec();
            let mut text = format!("key {} data {}", short_key(&key), short_hex(node.data));
            if let Some(values) = &meaning {
                text.push_str("  ");
                // The result can be ignored, because writing to a string cannot fail.
                let _ = values.write_line(&mut text);
            }
            NodeDump {
                tag,
                offset,
                length,
                flags: node_flags(node.flags),
                prefix_length: node.prefix.len(),
                key: hex(&key),
                data: hex(node.data),
                meaning,
                text,
            }
        })
        .collect()
}

fn node_flags(flags: NodeFlags) -> Vec<&'static str> {
    flags.iter_names().map(|(name, _)| name).collect()
}

fn meaning(image: &LoadedPage, node: &Node<'_>) -> Option<NamedValues> {
    let number = |number: u32| DumpedValue::Number(number.into());
    let (page, key) = (image.page(), || node.key_to_vec());
    let flags = page.flags();
    if !flags.contains(PageFlags::LEAF) {
        return Some(named(vec![("child", number(node.child()?.get()))]));
    }
    if flags.contains(PageFlags::SPACE) {
        let (extent, pool) = Extent::decode(&key(), node.data).ok()?;
        let mut values = extent_values(extent);
        if pool != 0 {
            values.push(("pool", number(pool.into())));
        }
        return Some(named(values));
    }
    if flags.contains(PageFlags::LONG_VALUE) {
        return match LongValueKey::decode(&key())? {
            LongValueKey::Root(id) => {
                let root = LongValueRoot::decode(node.data)?;
                Some(named(vec![
                    ("long_value", DumpedValue::Number(id.0)),
                    ("references", number(root.references)),
                    ("size", number(root.size)),
                ]))
            }
            LongValueKey::Chunk(id, offset) => {
                Some(named(vec![("long_value", DumpedValue::Number(id.0)), ("offset", number(offset))]))
            }
        };
    }
    if flags.contains(PageFlags::INDEX) {
        // The data of an index node is its row's primary key, which is not decoded.
        None
    } else {
        record_values(image, node)
    }
}

/// Returns the columns that a row stores and, for a catalog row, the object that it describes.
fn record_values(image: &LoadedPage, node: &Node<'_>) -> Option<NamedValues> {
    let record = Record::new(node.data, image.size);
    record.validate().ok()?;
    let tagged = record.tagged().ok()?.into_iter().map(|(id, _)| DumpedValue::Number(id.number().into()));
    let mut values = vec![
        ("last_fixed", DumpedValue::Number(record.last_fixed().number().into())),
        ("last_variable", DumpedValue::Number(record.last_variable().number().into())),
        ("tagged", DumpedValue::List(tagged.collect())),
    ];
    if [CATALOG, CATALOG_SHADOW].contains(&image.page().tree())
        && let Ok(row) = CatalogRow::decode(node.data, image.size)
    {
        values.push(("describes", DumpedValue::Text(format!("{:?}", row.kind))));
        values.push(("name", DumpedValue::Text(row.name)));
    }
    Some(named(values))
}

/// Heading of the columns in the text form.
pub(crate) const COLUMNS: &str =
    "      page state       tree role                        prev       next nodes  free       dbtime  name";

impl fmt::Display for PageDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10} {:<10}", self.page, self.state)?;
        let Some(header) = &self.header else {
            return match &self.state {
                PageState::Zero | PageState::BeyondFile => Ok(()),
                state => write!(f, " {}", state.reason()),
            };
        };
        let PageHeaderDump { tree, role, previous, next, node_count, free, db_time, .. } = header;
        write!(f, "{tree:>6} {role:<23} {previous:>8} {next:>10} {node_count:>5} {free:>5} {db_time:>12}")?;
        write!(f, "  {}", Printable(header.name.as_deref().unwrap_or("?")))?;
        if let Some(fault) = &header.fault {
            write!(f, "\n  ! {fault}")?;
        }
        let Some(nodes) = &self.nodes else { return Ok(()) };
        let PageHeaderDump { checksum, flags, flush_type, tags, reserved_tags, .. } = header;
        write!(
            f,
            "\n  offset {:#x}, checksum {checksum}, flags {flags}, flush type {flush_type}",
            self.offset
        )?;
        let PageHeaderDump { free_start, uncommitted_free, .. } = header;
        write!(f, "\n  {tags} tags, {reserved_tags} reserved; free area from {free_start}, ")?;
        write!(f, "{uncommitted_free} bytes uncommitted")?;
        if let Some(values) = &self.external_header {
            let mut line = String::new();
            values.write_line(&mut line)?;
            write!(f, "\n  tag 0: {line}")?;
        }
        nodes.iter().try_for_each(|node| write!(f, "\n{node}"))
    }
}

impl fmt::Display for NodeDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  tag {:>4} at {:>5} +{:<5}", self.tag, self.offset, self.length)?;
        if !self.flags.is_empty() {
            write!(f, " {}", FlagNames(&self.flags))?;
        }
        write!(f, " {}", self.text)
    }
}
