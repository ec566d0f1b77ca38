//! Damages pages on the disk of a host, and finds damaged pages.

use std::path::PathBuf;

use ese_format::PageNumber;
use ese_format::checksum::{PageIntegrity, verify_page};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::hosts::HostDisks;
use super::load::SIZE;

fn database(host: usize) -> PathBuf {
    HostDisks::store(host).join("data.edb")
}

/// Returns for each page of a host's database whether its checksum is valid; without the two headers.
fn pages(hosts: &HostDisks, host: usize) -> Vec<PageIntegrity> {
    let content = hosts.disk(host).contents(&database(host)).unwrap_or_default();
    let bytes = content.chunks_exact(SIZE.bytes()).skip(2);
    (1..)
        .zip(bytes)
        .map(|(page, bytes)| verify_page(&mut bytes.to_vec(), SIZE, PageNumber::fixed(page)))
        .collect()
}

/// Returns the numbers of the unreadable pages.
pub fn bad_pages(hosts: &HostDisks, host: usize) -> Vec<usize> {
    let pages = pages(hosts, host).into_iter().enumerate();
    pages
        .filter(|(_, found)| !matches!(found, PageIntegrity::Good | PageIntegrity::Zero))
        .map(|(at, _)| at + 1)
        .collect()
}

/// Damages a page with content. Returns `None` if there are no such pages.
pub fn damage_page(hosts: &HostDisks, host: usize, rng: &mut ChaCha8Rng) -> Option<usize> {
    let pages = pages(hosts, host).into_iter().enumerate();
    let good: Vec<usize> =
        pages.filter(|(_, found)| *found == PageIntegrity::Good).map(|(at, _)| at + 1).collect();
    let page = *good.get(rng.random_range(0..good.len().max(1)))?;
    let offset = (page as u64 + 1) * SIZE.bytes() as u64;
    let at = offset + rng.random_range(0..SIZE.bytes() as u64 - 64);
    let bytes: [u8; 64] = rng.random();
    hosts.disk(host).corrupt(&database(host), at, &bytes).ok()?;
    Some(page)
}
