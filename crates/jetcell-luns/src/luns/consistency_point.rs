//! Consistency points write pending blocks to the array. The catalogue then makes them part of the current state.

use std::collections::BTreeSet;

use jetcell_array::{ArrayError, BLOCK, FreeRowWrite, Result, SharedBlock};
use jetcell_sync::Arc;
use jetcell_vfs::IoBuffer;

use super::block_allocator::BlockAllocation;
use super::block_map::{BlockPointer, MapNode, MapUpdate, max_nodes};
use super::catalogue::LunId;
use super::next_point::{BlockContent, NewBlockContent, NextPoint, PendingBlock, PendingBlocks};
use super::write_through::{WRITE_THROUGH_BATCH, WRITE_THROUGH_WINDOW, WriteThroughBlocks};
use super::{CATALOGUE_AREA_BLOCKS, LunVolume};

/// Decisions made for a consistency point before anything is written.
struct ConsistencyPointPlan {
    /// New roots of the changed LUNs, with their indices in the catalogue.
    roots: Vec<(usize, BlockPointer)>,
    nodes: Vec<(u64, Arc<MapNode>)>,
    freed: Vec<u64>,
    /// Blocks that were allocated but are not needed.
    unused: Vec<u64>,
}

/// A consistency point in flight: its blocks in whole rows are being written. Until it completes, the previous state
/// remains current, and the blocks being replaced are still in use.
pub(super) struct InFlightConsistencyPoint {
    pending: PendingBlocks,
    /// Blocks that were written before the consistency point began.
    pub write_through: WriteThroughBlocks,
    plan: ConsistencyPointPlan,
    /// Blocks outside whole rows.
    single_blocks: NewBlockContent,
    /// Minimum number of blocks for the next window.
    window: u64,
}

impl InFlightConsistencyPoint {
    /// Returns the content of a LUN's block if this consistency point writes it from memory.
    pub fn content(&self, lun: LunId, index: u64) -> Option<BlockContent<'_>> {
        self.pending.get(&(lun, index)).map(PendingBlock::content)
    }
}

impl LunVolume {
    /// Writes all pending blocks. Afterwards, the current state is durable, and the write log restarts.
    ///
    /// # Errors
    /// Returns an error if the array failed. The volume must then be started again. No flushed write is lost.
    pub fn consistency_point(&mut self) -> Result<()> {
        self.start_consistency_point()?;
        self.finish_consistency_point()
    }

    /// Starts to write all pending blocks, after the previous consistency point has completed. Later writes belong to
    /// the next consistency point.
    pub(super) fn start_consistency_point(&mut self) -> Result<()> {
        self.finish_consistency_point()?;
        self.close_open_zone();
        if self.next.is_empty() {
            return Ok(());
        }
        let next = std::mem::take(&mut self.next);
        let started = self.start_writes(next);
        self.in_flight_point = Some(self.fail_on_error(started)?);
        Ok(())
    }

    /// Completes the consistency point that is being written, if there is one. Its state then becomes current.
    ///
    /// # Errors
    /// See [`LunVolume::consistency_point`].
    pub(super) fn finish_consistency_point(&mut self) -> Result<()> {
        self.check_running()?;
        let Some(point) = self.in_flight_point.take() else { return Ok(()) };
        let finished = self.finish_writes(&point);
        self.fail_on_error(finished)?;
        let InFlightConsistencyPoint { pending, plan, single_blocks: singly, .. } = point;
        // These blocks share the buffers of the pending blocks.
        drop(singly);
        for (block, node) in plan.nodes {
            self.maps.insert(block, node);
        }
        for block in plan.freed {
            self.maps.nodes.remove(&block);
        }
        self.counters.consistency_points += 1;
        for content in pending.into_values() {
            if let PendingBlock::Data(block) = content {
                self.array.recycle_block(block);
            }
        }
        Ok(())
    }

    /// Assigns locations to pending blocks, and starts to write those in whole rows.
    fn start_writes(&mut self, next: NextPoint) -> Result<InFlightConsistencyPoint> {
        let (data, unlogged) = (next.pending_data(), next.unlogged() as u64);
        let (pending, mut write_through) = next.into_blocks();
        let mut needed = data;
        for lun in &self.catalogue.luns {
            needed += max_nodes(lun.height(), changed_blocks(lun.id, &pending, &write_through).into_iter());
        }
        let logged = self.log_blocks();
        let is_flushed = write_through.is_empty() && 2 * unlogged <= logged.min(WRITE_THROUGH_BATCH);
        if let Some(window) = self.space.next_window(needed) {
            // Startup after a crash must know where whole rows may have been written, including write-through.
            let kept = if write_through.is_empty() { vec![] } else { self.catalogue.window.clone() };
            let window: BTreeSet<u64> = window.into_iter().chain(kept).collect();
            self.catalogue.window = window.into_iter().collect();
            self.write_catalogue()?;
        }
        let allocation = self.space.allocate(needed).ok_or(ArrayError::Full)?;
        let mut addresses = allocation.blocks.iter().copied();
        let mut content = NewBlockContent::new();
        let mut plan = self.plan_point(&pending, &write_through, &mut addresses, &mut content)?;
        plan.freed.extend(write_through.take_replaced());
        content
            .extend(plan.nodes.iter().map(|(block, node)| (*block, SharedBlock::copy_from(&node.encode()))));
        self.counters.data_blocks += data;
        self.counters.map_blocks += plan.nodes.len() as u64;
        let singly = self.start_content(&allocation, content)?;
        let window = 2 * needed.max(logged);
        let window = if is_flushed { window } else { window.max(WRITE_THROUGH_WINDOW) };
        Ok(InFlightConsistencyPoint { pending, write_through, plan, single_blocks: singly, window })
    }

    /// Starts to write the whole rows. Returns the blocks outside whole rows.
    pub(super) fn start_content(
        &mut self,
        allocation: &BlockAllocation,
        content: NewBlockContent,
    ) -> Result<NewBlockContent> {
        let (layout, columns) = (*self.array.layout(), self.array.layout().data_columns());
        let zeros = SharedBlock::from(IoBuffer::zeroed(BLOCK));
        let zero_row = |row: &u64| (*row, vec![zeros.clone(); columns]);
        let mut rows: Vec<FreeRowWrite> = allocation.whole_rows.iter().map(zero_row).collect();
        let (blocks, mut singly) = (content.len(), vec![]);
        for (block, data) in content {
            let (row, column) = layout.locate(block);
            match rows.binary_search_by_key(&row, |(row, _)| *row) {
                Ok(place) => rows[place].1[column] = data,
                Err(_) => singly.push((block, data)),
            }
        }
        singly.sort_unstable_by_key(|(block, _)| *block);
        self.counters.blocks_in_whole_rows += (blocks - singly.len()) as u64;
        self.array.row_writer().start_free_rows(&rows)?;
        Ok(singly)
    }

    /// Makes the blocks of a consistency point durable, and then the catalogue that refers to them.
    fn finish_writes(&mut self, point: &InFlightConsistencyPoint) -> Result<()> {
        self.array.row_writer().finish_rows()?;
        for (block, bytes) in &point.single_blocks {
            self.array.write(*block, bytes)?;
        }
        // The catalogue must not become durable before the blocks to which it refers. A commit syncs whole rows
        // together with its journal.
        if point.single_blocks.is_empty() {
            self.array.row_writer().sync_members()?;
        } else {
            self.array.flush()?;
        }
        for (place, root) in &point.plan.roots {
            self.catalogue.luns[*place].root = *root;
        }
        point.plan.unused.iter().for_each(|block| self.space.mark_free(*block));
        // Until the catalogue is durable, these blocks are not allocated again. The next window may include them.
        point.plan.freed.iter().for_each(|block| self.space.mark_free(*block));
        self.catalogue.window = self.space.best_window(point.window);
        self.commit_catalogue()
    }

    /// Assigns locations to pending blocks, and changes the maps in memory.
    fn plan_point(
        &mut self,
        pending: &PendingBlocks,
        write_through: &WriteThroughBlocks,
        addresses: &mut impl Iterator<Item = u64>,
        content: &mut NewBlockContent,
    ) -> Result<ConsistencyPointPlan> {
        let birth = self.catalogue.sequence + 1;
        let mut plan = ConsistencyPointPlan { roots: vec![], nodes: vec![], freed: vec![], unused: vec![] };
        let mut changes: Vec<Vec<(u64, BlockPointer)>> = vec![];
        // The data of all LUNs comes first, so consecutive blocks of a LUN are also consecutive on a member.
        for lun in &self.catalogue.luns {
            let mut of_lun = vec![];
            for ((_, index), block) in pending.range((lun.id, 0)..=(lun.id, u64::MAX)) {
                let pointer = match block {
                    PendingBlock::Hole => BlockPointer::HOLE,
                    PendingBlock::Data(data) => {
                        let block = addresses.next().ok_or(ArrayError::Full)?;
                        content.push((block, data.clone()));
                        BlockPointer { block, birth }
                    }
                };
                of_lun.push((*index, pointer));
            }
            of_lun.extend(
                write_through
                    .blocks_of_lun(lun.id, 0..u64::MAX)
                    .map(|(index, block)| (index, BlockPointer { block, birth })),
            );
            // A stable sort merges two ascending sequences efficiently.
            of_lun.sort_by_key(|(index, _)| *index);
            changes.push(of_lun);
        }
        for (place, changes) in changes.iter().enumerate().filter(|(_, changes)| !changes.is_empty()) {
            let lun = &self.catalogue.luns[place];
            let (root, height, shared_up_to) = (lun.root, lun.height(), lun.shared_up_to());
            let mut rewrite = MapUpdate { birth, shared_up_to, addresses, nodes: vec![], freed: vec![] };
            let root = rewrite.run(&mut self.reader(), root, height, changes)?;
            plan.nodes.append(&mut rewrite.nodes);
            plan.freed.append(&mut rewrite.freed);
            plan.roots.push((place, root));
        }
        plan.unused.extend(addresses);
        Ok(plan)
    }

    /// Writes the catalogue of a state that includes all previous writes, and then restarts the write log.
    pub(super) fn commit_catalogue(&mut self) -> Result<()> {
        self.catalogue.point = self.catalogue.sequence + 1;
        self.write_catalogue()?;
        self.log.restart(self.catalogue.point);
        Ok(())
    }

    /// Writes the catalogue with the next number, which makes it the current one.
    fn write_catalogue(&mut self) -> Result<()> {
        self.catalogue.sequence += 1;
        let written = self.catalogue.encode().and_then(|bytes| {
            self.array.write(self.catalogue.sequence % 2 * CATALOGUE_AREA_BLOCKS, &bytes)?;
            self.array.flush()
        });
        self.space.set_window(&self.catalogue.window);
        self.fail_on_error(written)
    }
}

/// Returns the blocks of a LUN that change with a consistency point, in ascending order.
fn changed_blocks(lun: LunId, pending: &PendingBlocks, early: &WriteThroughBlocks) -> Vec<u64> {
    let indexes = pending.range((lun, 0)..=(lun, u64::MAX)).map(|((_, index), _)| *index);
    let mut indexes: Vec<u64> =
        indexes.chain(early.blocks_of_lun(lun, 0..u64::MAX).map(|(index, _)| index)).collect();
    // A stable sort merges two ascending sequences efficiently.
    indexes.sort();
    indexes
}
