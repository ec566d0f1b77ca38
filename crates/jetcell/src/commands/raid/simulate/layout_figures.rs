//! Figures of a layout, which several tables show.

use jetcell_disk_simulation::experiment::{ArrayStateResults, LayoutResults, SimulatedState};

/// Returns the figures of a layout in a state.
pub fn figures(layout: &LayoutResults, state: SimulatedState) -> Option<&ArrayStateResults> {
    layout.states.iter().find(|figures| figures.state == state)
}
