//! Backups and restores of small instances on a simulated disk: histories, interruptions and faults.

mod faults;
mod histories;
mod interrupted;
mod site;
