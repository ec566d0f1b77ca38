use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Creates a page that is zero except for the given pieces.
fn page(size: PageSize, pieces: &[(usize, &str)]) -> Vec<u8> {
    let mut page = vec![0; size.bytes()];
    for (at, text) in pieces {
        put(&mut page, *at, &hex(text));
    }
    page
}

const KIB_4: PageSize = PageSize::KIB_4;
const KIB_32: PageSize = PageSize::KIB_32;

/// A page from a real file: size, number, bytes, checksums.
type RealPage = (PageSize, u32, Vec<u8>, Vec<u64>);

/// Returns the pages of `basic.edb` (4 KiB) and `large.edb` (32 KiB).
fn real_pages() -> Vec<RealPage> {
    let mut pages = small_pages();
    pages.extend(large_pages());
    pages
}

fn small_pages() -> Vec<RealPage> {
    vec![
        (
            KIB_4,
            1,
            page(
                KIB_4,
                &[
                    (0, "7ca70100 df7fdf7f 46000000 00000000"),
                    (24, "01000000 c40f 0000 1000 0100 03a80000"),
                    (40, "fe000000 00000000 01000000 02000000"),
                    (4092, "1000 0000"),
                ],
            ),
            vec![0x7fdf_7fdf_0001_a77c],
        ),
        (
            KIB_4,
            12,
            page(
                KIB_4,
                &[
                    (0, "cca70100 787e787e 62000000 00000000"),
                    (24, "05000000 c40f0000 10000100 63a80000"),
                    (4092, "10000000"),
                ],
            ),
            vec![0x7e78_7e78_0001_a7cc],
        ),
        (
            KIB_4,
            2,
            page(
                KIB_4,
                &[
                    (0, "d459ec00 92019201 46000000 00000000"),
                    (24, "01000000 b60f0000 1a000200 23a80000"),
                    (56, "0400 000000fe fe000000"),
                    (4088, "0a001000 10000000"),
                ],
            ),
            vec![0x0192_0192_00ec_59d4],
        ),
        (
            KIB_4,
            8,
            page(
                KIB_4,
                &[
                    (0, "7a2f0f12 0e7ff100 89010000 00000000"),
                    (24, "04000000 a80f0000 24000300 63280100"),
                    (56, "0400 00000009 03000000 0400 00000012 04000000"),
                    (4084, "0a001a00 0a001000 10000000"),
                ],
            ),
            vec![0x00f1_7f0e_120f_2f7a],
        ),
    ]
}

fn large_pages() -> Vec<RealPage> {
    vec![
        (
            KIB_32,
            1,
            page(
                KIB_32,
                &[
                    (0, "c0281a00 31013101 46000000 00000000"),
                    (24, "01000000 9c7f0000 10000100 03a80000"),
                    (40, "0100000000000000 0100000000000000 11000000e4ff1b00"),
                    (64, "01000000"),
                    (80, "fe000000 00000000 01000000 02000000"),
                    (32764, "10000000"),
                ],
            ),
            vec![0x0131_0131_001a_28c0, 1, 1, 0x001b_ffe4_0000_0011],
        ),
        (
            KIB_32,
            12,
            page(
                KIB_32,
                &[
                    (0, "70281a00 56005600 62000000 00000000"),
                    (24, "05000000 9c7f0000 10000100 63a80000"),
                    (40, "0c00000000000000 0c00000000000000 1c000000e4ff1b00"),
                    (64, "0c000000"),
                    (32764, "10000000"),
                ],
            ),
            vec![0x0056_0056_001a_2870, 12, 12, 0x001b_ffe4_0000_001c],
        ),
        (
            KIB_32,
            3,
            page(
                KIB_32,
                &[
                    (0, "f7e879fe 297dd682 80fe0200 00000000"),
                    (24, "01000000 807f0000 24000300 23280100"),
                    (40, "0300000000000000 0300000000000000 13000a0086ff7900"),
                    (64, "03000000"),
                    (96, "0440 000000fe 05000000 0400 000001fe 70000000"),
                    (4084, "0a001a00 0a001000 10000000"),
                    (32756, "0a001a00 0a001000 10000000"),
                ],
            ),
            vec![0x82d6_7d29_fe79_e8f7, 3, 3, 0x0079_ff86_000a_0013],
        ),
    ]
}

#[test]
fn real_pages_verify_validate_and_seal_to_the_same_bytes() {
    for (size, number, bytes, words) in real_pages() {
        let number = PageNumber::fixed(number);
        for (block, word) in words.iter().enumerate() {
            assert_eq!(computed_word(&bytes, size, block, number.get()), *word, "{number:?} block {block}");
        }
        let mut copy = bytes.clone();
        assert_eq!(verify_page(&mut copy, size, number), PageIntegrity::Good);
        crate::page::validate(&bytes, size).unwrap();
        put(&mut copy, 0, &[0xff; 8]);
        seal_page(&mut copy, size, number);
        assert!(copy == bytes, "{number:?}");
    }
}

#[test]
fn synthetic_blocks() {
    let mut one = vec![0; 4096];
    one[40] = 1;
    assert_eq!(block_checksum(&one, 5, true), 0x7ebf_0140_0000_0004);
    one[40] = 0;
    one[8] = 1;
    assert_eq!(block_checksum(&one, 0, true), 0x7fbf_0040_0000_0001);
    one[8] = 0;
    one[4095] = 0x80;
    assert_eq!(block_checksum(&one, 0, true), 0x0000_7fff_8000_0000);
    let counting: Vec<u8> = (0..4096u32).map(|i| i as u8).collect();
    assert_eq!(block_checksum(&counting, 7, true), 0x0404_0403);
    assert_eq!(block_checksum(&counting, 7, false), 7);
    let stepping = |len: u32| (0..len).map(|i| (7 * i + 3) as u8).collect::<Vec<u8>>();
    assert_eq!(block_checksum(&stepping(8192), 0x12_3456, true), 0xffca_0035_2c2e_184a);
    assert_eq!(block_checksum(&stepping(8192), 0x12_3456, false), 0x12_3456);
    assert_eq!(block_checksum(&stepping(2048), 9, true), 0x3fca_0035_2c3c_2c15);
}

/// Computes the checksum bit by bit, directly from its definition.
fn by_definition(block: &[u8], number: u32, header_block: bool) -> u64 {
    let (mut low, mut high, mut xor) = (0u64, 0u64, number);
    let bits = block.len() as u64 * 8;
    for (at, byte) in block.iter().enumerate().skip(if header_block { 8 } else { 0 }) {
        xor ^= u32::from(*byte) << (at % 4 * 8);
        for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
            low ^= at as u64 * 8 + bit;
            high ^= bits - 1 - (at as u64 * 8 + bit);
        }
    }
    high << 48 | low << 32 | u64::from(xor)
}

#[test]
fn fast_checksum_equals_the_definition() {
    let mut state = 1u64;
    for len in (3..=13).map(|bits| 1 << bits) {
        for number in 0..8 {
            let block: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .take(len)
            .collect();
            for header_block in [false, true] {
                assert_eq!(
                    block_checksum(&block, number, header_block),
                    by_definition(&block, number, header_block)
                );
            }
        }
    }
}

#[test]
fn unusual_lengths_do_not_cause_a_panic() {
    for len in [0, 1, 7, 8, 9, 16, 100, 8191, 9000, 40000] {
        block_checksum(&vec![0xa5; len], 3, true);
        header_checksum(&vec![0xa5; len]);
        assert_eq!(verify_page(&mut vec![1; len], KIB_4, PageNumber::fixed(1)), PageIntegrity::Bad);
        assert_eq!(verify_segment(&mut vec![1; len], 1), BlockIntegrity::Bad);
    }
}

/// Flips one bit and checks that it is corrected, or at least detected if it cannot be corrected.
fn damage(sound: &[u8], page: &mut [u8], size: PageSize, number: PageNumber, bit: u32) {
    flip(page, bit);
    let verdict = verify_page(page, size, number);
    let at_flag = bit == FORMAT_FLAG.0 as u32 * 8 + 5;
    if bit < 64 || at_flag {
        assert!(
            matches!(verdict, PageIntegrity::Bad | PageIntegrity::WrongPage { .. }),
            "bit {bit}: {verdict:?}"
        );
        flip(page, bit);
    } else {
        assert_eq!(verdict, PageIntegrity::Repaired { bits: vec![bit] });
    }
    assert!(page == sound, "bit {bit}");
}

#[test]
fn every_flipped_bit_of_a_small_page_is_detected() {
    let (size, number, sound, _) = real_pages().swap_remove(3);
    let mut page = sound.clone();
    for bit in 0..size.get() * 8 {
        damage(&sound, &mut page, size, PageNumber::fixed(number), bit);
    }
}

#[test]
fn flipped_bits_of_large_pages_are_detected() {
    let (size, number, sound, _) = real_pages().swap_remove(6);
    let mut page = sound.clone();
    // Test every bit in the headers and a sample of bits in every block.
    for bit in (0..80 * 8).chain((640..size.get() * 8).step_by(97)) {
        damage(&sound, &mut page, size, PageNumber::fixed(number), bit);
    }
}

#[test]
fn one_flipped_bit_in_each_block_of_a_large_page_is_repaired() {
    let (size, number, sound, _) = real_pages().swap_remove(6);
    let mut page = sound.clone();
    // The first bit is in the stored checksum of block 1, and block 1 itself is damaged too.
    let bits = vec![44 * 8 + 1, 8192 * 8 + 5, 20000 * 8 + 6, 32767 * 8 + 7];
    bits.iter().for_each(|bit| flip(&mut page, *bit));
    assert_eq!(verify_page(&mut page, size, PageNumber::fixed(number)), PageIntegrity::Repaired { bits });
    assert!(page == sound);
}

#[test]
fn two_flipped_bits_in_a_block_are_reported_without_repair() {
    for (size, number, sound, _) in real_pages() {
        let mut page = sound.clone();
        flip(&mut page, 100 * 8);
        flip(&mut page, 300 * 8 + 3);
        let damaged = page.clone();
        assert_eq!(verify_page(&mut page, size, PageNumber::fixed(number)), PageIntegrity::Bad);
        assert!(page == damaged);
    }
}

#[test]
fn misplaced_pages_report_their_number() {
    for (size, number, mut page, _) in real_pages() {
        for other in [number + 1, number ^ 0x100, 77] {
            let verdict = verify_page(&mut page, size, PageNumber::fixed(other));
            assert_eq!(verdict, PageIntegrity::WrongPage { stored: number });
        }
    }
    // The checksums are valid for the requested number, but the header contains a different number.
    let (size, number, mut page, _) = real_pages().swap_remove(5);
    put(&mut page, LARGE_PAGE_NUMBER, &99u32.to_le_bytes());
    let word = computed_word(&page, size, 0, number);
    put(&mut page, 0, &word.to_le_bytes());
    let verdict = verify_page(&mut page, size, PageNumber::fixed(number));
    assert_eq!(verdict, PageIntegrity::WrongPage { stored: 99 });
}

#[test]
fn legacy_pages_are_verified_only_by_xor() {
    let (size, number, mut page, _) = real_pages().swap_remove(2);
    let place = PageNumber::fixed(number);
    page[FORMAT_FLAG.0] &= !FORMAT_FLAG.1;
    put(&mut page, 4, &number.to_le_bytes());
    let sum = header_checksum(&page);
    put(&mut page, 0, &sum.to_le_bytes());
    assert_eq!(verify_page(&mut page, size, place), PageIntegrity::Good);
    assert_eq!(verify_page(&mut page, size, place.plus(1)), PageIntegrity::WrongPage { stored: number });
    flip(&mut page, 1000);
    assert_eq!(verify_page(&mut page, size, place), PageIntegrity::Bad);
    assert_eq!(verify_page(&mut vec![0; 4096], size, place), PageIntegrity::Zero);
}

#[test]
fn segments_are_sealed_verified_and_repaired() {
    let mut segment: Vec<u8> = (0..SEGMENT_LEN).map(|i| (i * 31) as u8).collect();
    seal_segment(&mut segment, 9);
    let sound = segment.clone();
    assert_eq!(verify_segment(&mut segment, 9), BlockIntegrity::Good);
    // A shadow copy is stored one segment later. It must not verify at that segment's own index.
    assert_eq!(verify_segment(&mut segment, 10), BlockIntegrity::Bad);
    flip(&mut segment, 12345);
    assert_eq!(verify_segment(&mut segment, 9), BlockIntegrity::Repaired);
    assert!(segment == sound);
    flip(&mut segment, 3);
    assert_eq!(verify_segment(&mut segment, 9), BlockIntegrity::Bad);
}

#[test]
fn header_checksum_of_a_real_header() {
    let pieces = [
        (0, "d410a898 efcdab89 20060000"),
        (16, "93010000"),
        (24, "9ef0c387 202e0b13 087af908"),
        (52, "03000000 00001600 01000000"),
        (64, "212e0b13 087a5100 202e0b13 087a710e 68021400 01000000 212e0b13 087a5100 00001600 01000000"),
        (104, "01000000 819d9908 202e0b13 087a3b08"),
        (212, "08000000 06000000 02000000 f0230000"),
        (232, "14000000 00100000"),
        (340, "20060000 14000000"),
        (508, "ffffffff ffffffff"),
        (584, "e913cb9b 212e0b13 087a5100"),
        (612, "0e0a8b90 212e0b13 087a4f00"),
        (667, "01"),
    ];
    assert_eq!(header_checksum(&page(KIB_4, &pieces)), 0x98a8_10d4);
}
