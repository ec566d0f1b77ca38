//! Backups and restores of small instances on a simulated disk: histories, interruptions and faults.

mod bulk_loads;
mod claims;
mod continued;
mod damaged_logs;
mod faults;
mod histories;
mod hostile;
mod interrupted;
mod links;
mod lists;
mod repeated;
mod shared_directory;
mod test_instance;
mod windows;
