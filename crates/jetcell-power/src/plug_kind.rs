//! The kinds of smart plugs.

/// The interface of a plug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlugKind {
    /// Tasmota's command `Status 10`.
    Tasmota,
    /// Shelly's second generation: `Switch.GetStatus`.
    Shelly,
    /// Shelly's first generation: `/meter/0`.
    Shelly1,
}

impl PlugKind {
    pub(crate) const ALL: [PlugKind; 3] = [PlugKind::Tasmota, PlugKind::Shelly, PlugKind::Shelly1];

    pub(crate) fn name(self) -> &'static str {
        match self {
            PlugKind::Tasmota => "tasmota",
            PlugKind::Shelly => "shelly",
            PlugKind::Shelly1 => "shelly1",
        }
    }
}
