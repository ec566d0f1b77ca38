//! Compares simulated experiments with published figures.

mod ns3574;
