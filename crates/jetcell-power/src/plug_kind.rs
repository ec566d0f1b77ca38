//! Kinds of smart plugs.

/// A smart plug's interface, which depends on its vendor and model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlugKind {
    /// Tasmota: command `Status 10`.
    Tasmota,
    /// Second-generation Shelly: `Switch.GetStatus`.
    Shelly,
    /// First-generation Shelly: `/meter/0`.
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
