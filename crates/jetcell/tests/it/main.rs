//! The built command as a user runs it: its output, its exit codes, and that a refusal changes nothing.

mod backup;
mod backup_interrupted;
mod backup_test;
mod bad_input;
mod cell;
mod check;
mod copies;
mod disk;
mod doctor;
mod dump;
mod esrp;
mod events;
mod maintain;
mod manners;
mod raid;
mod raid_reliability;
mod recover;
mod recover_faults;
mod recovery_test;
mod replication_test;
mod runs;
mod self_description;
mod sizing;
mod stored_runs;
mod stress_test;
mod watching;
