//! Reasons why a change does not fit a page.

/// Reason why a change in a log record, or in a delta, does not fit a page. The page is damaged, or the record belongs
/// to another page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum PageMisfit {
    #[error("page does not have enough space for the node")]
    NoRoom,
    #[error("page does not have enough space for its external header")]
    NoRoomForHeader,
    #[error("root does not have a space header")]
    NoSpaceHeader,
    #[error("the image of the moved nodes does not fit into a page")]
    ImageTooLarge,
    #[error("the page and the split record have different node counts")]
    SplitNodeCount,
    #[error("unknown split type")]
    SplitType,
    #[error("split record does not have a new page")]
    NoNewPage,
    #[error("the page does not have a node for the prefix")]
    NoPrefixNode,
    #[error("the incoming node of a split is missing")]
    NoIncomingNode,
    #[error("parent does not have an entry for the split page")]
    NoEntryOfSplitPage,
    #[error("parent does not have an entry for the moved page")]
    NoEntryOfMovedPage,
    #[error("parent entry is unreadable")]
    UnreadableEntry,
    #[error("a merge to the left does not have a left page")]
    NoLeftPage,
    #[error("the merged page does not have a previous page")]
    NoPreviousPage,
    #[error("partial merge of all nodes or no nodes")]
    PartialMerge,
    #[error("the page and the scrub record have different node counts")]
    ScrubNodeCount,
    #[error("a node to scrub is unreadable")]
    UnreadableNode,
    #[error("unknown operation in a scrub record")]
    ScrubOperation,
    #[error("the length of the scrubbed data differs")]
    ScrubLength,
    #[error("before-image of a replaced record is missing from the log")]
    NoBeforeImage,
    #[error("the page does not have the node in the log record")]
    NoNode,
    #[error("the differences do not match the data of the node")]
    Differences,
    #[error("the counter change to undo is not in the log")]
    NoCounterChange,
    #[error("the counter is outside the data of the node")]
    CounterOutsideNode,
    #[error("the image of the merged page does not contain the nodes to move")]
    NoMovedNodes,
    #[error("an internal page does not have the entry that a merge changes")]
    NoEntryOfMerge,
}
