//! Block map of a LUN: a tree whose nodes are blocks of the array and are never changed in place.
//!
//! A node has 256 pointers, either to other nodes or, at height 1, to data blocks. Each pointer includes the
//! consistency point that wrote the block, so the map alone shows which blocks a snapshot can share.

use std::ops::Range;

use jetcell_array::{BLOCK, LunError, Result};
use jetcell_sync::Arc;

use super::FIRST_BLOCK;

/// Number of pointers in a node.
pub(super) const FAN_OUT: usize = 256;
/// Size of a pointer in bytes.
const POINTER_BYTES: usize = BLOCK / FAN_OUT;

/// Pointer to an array block, with the consistency point that wrote the block. Block 0 stands for a hole.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct BlockPointer {
    pub block: u64,
    pub birth: u64,
}

impl BlockPointer {
    pub const HOLE: BlockPointer = BlockPointer { block: 0, birth: 0 };

    pub fn is_hole(&self) -> bool {
        self.block == 0
    }

    /// Returns true if the pointer can occur in a volume with this many blocks at this consistency point.
    pub fn is_possible(&self, blocks: u64, sequence: u64) -> bool {
        *self == BlockPointer::HOLE
            || (FIRST_BLOCK..blocks).contains(&self.block) && (1..=sequence).contains(&self.birth)
    }
}

/// Returns the height of the tree for a map of this many blocks.
pub(super) fn height(blocks: u64) -> u32 {
    let mut height = 1;
    while span(height) < blocks {
        height += 1;
    }
    height
}

/// Returns the number of blocks below a node of this height.
fn span(height: u32) -> u64 {
    (FAN_OUT as u64).saturating_pow(height)
}

/// A block map node in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MapNode(Box<[BlockPointer; FAN_OUT]>);

impl MapNode {
    fn empty() -> MapNode {
        MapNode(Box::new([BlockPointer::HOLE; FAN_OUT]))
    }

    /// Decodes a node. Returns `None` if a pointer cannot occur in a volume with this many blocks at this consistency
    /// point.
    pub fn decode(bytes: &[u8], blocks: u64, sequence: u64) -> Option<MapNode> {
        let mut node = MapNode::empty();
        for (pointer, bytes) in node.0.iter_mut().zip(bytes.chunks_exact(POINTER_BYTES)) {
            let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            *pointer = BlockPointer { block: number(0), birth: number(8) };
        }
        node.0.iter().all(|pointer| pointer.is_possible(blocks, sequence)).then_some(node)
    }

    pub fn encode(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|pointer| [pointer.block, pointer.birth]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    pub fn pointers(&self) -> &[BlockPointer; FAN_OUT] {
        &self.0
    }
}

/// Provides the nodes of a block map.
pub(super) trait MapNodeSource {
    fn node(&mut self, block: u64) -> Result<Arc<MapNode>>;
}

/// Looks up blocks one after another. For consecutive lookups in the same leaf node, the node is read only once.
pub(super) struct MapLookup {
    root: BlockPointer,
    height: u32,
    /// The leaf node of the last lookup, and its number.
    leaf: Option<(u64, Option<Arc<MapNode>>)>,
}

impl MapLookup {
    pub fn new(root: BlockPointer, height: u32) -> MapLookup {
        MapLookup { root, height, leaf: None }
    }

    /// Returns the pointer to a block of the LUN.
    pub fn next(&mut self, nodes: &mut impl MapNodeSource, index: u64) -> Result<BlockPointer> {
        let (number, slot) = (index / FAN_OUT as u64, index as usize % FAN_OUT);
        if self.leaf.as_ref().is_none_or(|(last, _)| *last != number) {
            let mut pointer = self.root;
            for height in (2..=self.height).rev() {
                if pointer.is_hole() {
                    break;
                }
                let slot = index / span(height - 1) % FAN_OUT as u64;
                pointer = nodes.node(pointer.block)?.0[slot as usize];
            }
            let leaf = if pointer.is_hole() { None } else { Some(nodes.node(pointer.block)?) };
            self.leaf = Some((number, leaf));
        }
        let leaf = self.leaf.as_ref().and_then(|(_, leaf)| leaf.as_ref());
        Ok(leaf.map_or(BlockPointer::HOLE, |leaf| leaf.0[slot]))
    }
}

/// Calls `found` for each mapped block in the range, in ascending order.
pub(super) fn for_each_mapped(
    nodes: &mut impl MapNodeSource,
    root: BlockPointer,
    height: u32,
    range: &Range<u64>,
    found: &mut impl FnMut(u64, BlockPointer),
) -> Result<()> {
    for_each_below(nodes, root, height, 0, range, found)
}

fn for_each_below(
    nodes: &mut impl MapNodeSource,
    pointer: BlockPointer,
    height: u32,
    first: u64,
    range: &Range<u64>,
    found: &mut impl FnMut(u64, BlockPointer),
) -> Result<()> {
    if pointer.is_hole() || first >= range.end || first.saturating_add(span(height)) <= range.start {
        return Ok(());
    }
    if height == 0 {
        found(first, pointer);
        return Ok(());
    }
    let node = nodes.node(pointer.block)?;
    for (slot, child) in (0..).zip(node.pointers()) {
        for_each_below(nodes, *child, height - 1, first + slot * span(height - 1), range, found)?;
    }
    Ok(())
}

/// Calls `visit` for each block of a tree, both nodes and data. Each node is visited before the blocks below it. If
/// `visit` returns false for a node, the blocks below it are not visited.
pub(super) fn walk(
    nodes: &mut impl MapNodeSource,
    pointer: BlockPointer,
    height: u32,
    visit: &mut impl FnMut(u64) -> bool,
) -> Result<()> {
    if pointer.is_hole() || !visit(pointer.block) || height == 0 {
        return Ok(());
    }
    let node = nodes.node(pointer.block)?;
    node.pointers().iter().try_for_each(|child| walk(nodes, *child, height - 1, visit))
}

/// Returns the maximum number of nodes that must be written when these blocks change. The blocks must be in ascending
/// order.
pub(super) fn max_nodes(height: u32, indexes: impl Iterator<Item = u64> + Clone) -> u64 {
    let at_height = |height| {
        let mut last = None;
        indexes
            .clone()
            .filter(|index| last.replace(index / span(height)) != Some(index / span(height)))
            .count()
    };
    (1..=height).map(|height| at_height(height) as u64).sum()
}

/// A change to a map, with the nodes that it writes and the blocks that it frees.
pub(super) struct MapUpdate<'change> {
    /// Consistency point that writes the change.
    pub birth: u64,
    /// Last consistency point whose blocks may be shared. Blocks up to this point are not freed.
    pub shared_up_to: u64,
    /// Blocks of the array for new nodes.
    pub addresses: &'change mut dyn Iterator<Item = u64>,
    pub nodes: Vec<(u64, Arc<MapNode>)>,
    pub freed: Vec<u64>,
}

impl MapUpdate<'_> {
    /// Applies changes, which must be in ascending order. There must be at least one. Returns the map's new root.
    pub fn run(
        &mut self,
        source: &mut impl MapNodeSource,
        pointer: BlockPointer,
        height: u32,
        changes: &[(u64, BlockPointer)],
    ) -> Result<BlockPointer> {
        let mut node =
            if pointer.is_hole() { MapNode::empty() } else { MapNode::clone(&*source.node(pointer.block)?) };
        let slot_of = |index: u64| (index / span(height - 1) % FAN_OUT as u64) as usize;
        for changes in changes.chunk_by(|one, other| slot_of(one.0) == slot_of(other.0)) {
            let child = &mut node.0[slot_of(changes[0].0)];
            if height == 1 {
                self.release(*child);
                *child = changes[0].1;
            } else {
                *child = self.run(source, *child, height - 1, changes)?;
            }
        }
        self.release(pointer);
        if node.0.iter().all(BlockPointer::is_hole) {
            return Ok(BlockPointer::HOLE);
        }
        let block = self.addresses.next().ok_or(LunError::TooFewMapBlocks)?;
        self.nodes.push((block, Arc::new(node)));
        Ok(BlockPointer { block, birth: self.birth })
    }

    fn release(&mut self, pointer: BlockPointer) {
        if !pointer.is_hole() && pointer.birth > self.shared_up_to {
            self.freed.push(pointer.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Nodes in memory.
    #[derive(Default)]
    struct InMemoryNodes(BTreeMap<u64, Arc<MapNode>>);

    impl MapNodeSource for InMemoryNodes {
        fn node(&mut self, block: u64) -> Result<Arc<MapNode>> {
            Ok(self.0[&block].clone())
        }
    }

    #[test]
    fn map_height_depends_on_the_number_of_blocks() {
        assert_eq!([1, 256, 257, 65536, 65537, 1 << 40].map(height), [1, 1, 2, 2, 3, 5]);
        let (node, decoded) = (MapNode::empty(), MapNode::decode(&[0; BLOCK], 600, 5).unwrap());
        assert_eq!(node, decoded);
        let pointer = |block: u64, birth: u64| {
            let mut bytes = vec![0; BLOCK];
            bytes[32..40].copy_from_slice(&block.to_le_bytes());
            bytes[40..48].copy_from_slice(&birth.to_le_bytes());
            MapNode::decode(&bytes, 600, 5).map(|node| assert_eq!(node.encode(), bytes)).is_some()
        };
        assert!(pointer(512, 1) && pointer(599, 5));
        assert!(
            !pointer(600, 1) && !pointer(511, 1) && !pointer(512, 0) && !pointer(512, 6) && !pointer(0, 1)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compares a block map with an ordered map after each change. Older roots must still show the older states. Of
        /// the young blocks, exactly those that are no longer in use must be freed.
        #[test]
        fn map_updates_leave_older_versions_unchanged(
            rounds in prop::collection::vec(prop::collection::btree_map(0u64..70_000, any::<bool>(), 1..40), 1..6),
            shared_up_to in 0u64..4,
        ) {
            let height = height(70_000);
            let (mut stored, mut next) = (InMemoryNodes::default(), FIRST_BLOCK);
            let mut states: Vec<(BlockPointer, BTreeMap<u64, BlockPointer>)> = vec![(BlockPointer::HOLE, BTreeMap::new())];
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            for (round, changes) in (1..).zip(rounds) {
                let (root, mut model) = states.last().unwrap().clone();
                let mut list = vec![];
                for (index, is_data) in changes {
                    let pointer = if is_data { next += 1; BlockPointer { block: next, birth: round } } else { BlockPointer::HOLE };
                    list.push((index, pointer));
                    if is_data { live.insert(next, round); model.insert(index, pointer) } else { model.remove(&index) };
                }
                let most = max_nodes(height, list.iter().map(|change| change.0));
                let mut addresses = next + 1..=next + most;
                let (nodes, freed) = (vec![], vec![]);
                let mut rewrite = MapUpdate { birth: round, shared_up_to, addresses: &mut addresses, nodes, freed };
                let root = rewrite.run(&mut stored, root, height, &list).unwrap();
                next += most;
                for (block, node) in rewrite.nodes {
                    live.insert(block, round);
                    stored.0.insert(block, node);
                }
                for block in rewrite.freed {
                    prop_assert!(live.remove(&block).unwrap() > shared_up_to);
                }
                states.push((root, model));
                let mut found = std::collections::BTreeSet::new();
                walk(&mut stored, root, height, &mut |block| found.insert(block)).unwrap();
                let young: Vec<u64> = live.iter().filter(|(_, birth)| **birth > shared_up_to).map(|(block, _)| *block).collect();
                prop_assert!(young.iter().all(|block| found.contains(block)), "nothing young is left behind");
                prop_assert!(found.iter().all(|block| live.contains_key(block)), "nothing in use is freed");
            }
            // The last state and all states up to the shared consistency point are complete.
            let last = states.len() - 1;
            for (round, (root, model)) in states.iter().enumerate() {
                if round as u64 > shared_up_to && round != last {
                    continue;
                }
                let mut found = BTreeMap::new();
                for_each_mapped(&mut stored, *root, height, &(0..70_000), &mut |index, pointer| { found.insert(index, pointer); }).unwrap();
                prop_assert_eq!(&found, model);
                let mut lookups = MapLookup::new(*root, height);
                for index in model.keys().copied().chain([0, 69_999]) {
                    let pointer = lookups.next(&mut stored, index).unwrap();
                    prop_assert_eq!(pointer, model.get(&index).copied().unwrap_or_default());
                }
            }
        }
    }
}
