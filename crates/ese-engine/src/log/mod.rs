//! Write-ahead log.
