use proptest::prelude::*;
use serde_json::Value;

use super::*;
use jetcell_vfs::{IoBuffer, RealClock, SimClock};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../fixtures/rdp-vectors.json")).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Generates the byte sequence that the fixture describes.
fn generated(seed: u32, len: usize) -> Vec<u8> {
    let states =
        std::iter::successors(Some(seed), |x| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)));
    states.skip(1).take(len).map(|x| (x >> 24) as u8).collect()
}

struct RowDiagonalCase {
    code: RowDiagonal,
    columns: Vec<Vec<u8>>,
}

fn case(value: &Value) -> RowDiagonalCase {
    let (prime, data) = (number(&value["p"]), number(&value["n_data"]));
    let block = (prime - 1) * number(&value["symbol_bytes"]);
    let bytes = generated(number(&value["seed"]) as u32, data * block);
    let mut columns: Vec<Vec<u8>> = bytes.chunks(block).map(<[u8]>::to_vec).collect();
    if let Some(listed) = value["data"].as_array() {
        assert_eq!(columns, listed.iter().map(hex).collect::<Vec<_>>());
    }
    columns.extend([hex(&value["row_parity"]), hex(&value["diag_parity"])]);
    RowDiagonalCase { code: RowDiagonal::new(prime), columns }
}

fn column_of(name: &str, data: usize) -> usize {
    match name {
        "rp" => data,
        "dp" => data + 1,
        column => column[1..].parse().unwrap(),
    }
}

fn slices(columns: &[Vec<u8>]) -> Vec<&[u8]> {
    columns.iter().map(|column| &column[..]).collect()
}

/// Overwrites the columns in `lost` with arbitrary bytes, recovers them, and returns all columns.
fn recovered(columns: &[Vec<u8>], lost: &[usize], recover: impl FnOnce(&mut [&mut [u8]])) -> Vec<Vec<u8>> {
    let mut columns = columns.to_vec();
    lost.iter().for_each(|column| columns[*column].fill(0xE5));
    recover(&mut columns.iter_mut().map(|column| &mut column[..]).collect::<Vec<_>>());
    columns
}

#[test]
fn row_diagonal_parity_agrees_with_the_published_vectors() {
    for value in vectors()["cases"].as_array().unwrap() {
        let RowDiagonalCase { code, columns } = case(value);
        let data = columns.len() - 2;
        for kernel in Kernel::available() {
            let (mut rows, mut diagonals) = (vec![1; columns[0].len()], vec![1; columns[0].len()]);
            code.encode(&kernel, &slices(&columns[..data]), &mut rows, &mut diagonals);
            assert_eq!((rows, diagonals), (columns[data].clone(), columns[data + 1].clone()));
            for pair in value["double"].as_array().unwrap() {
                let lost: Vec<usize> =
                    (0..2).map(|i| column_of(pair["lost"][i].as_str().unwrap(), data)).collect();
                assert_eq!(recovered(&columns, &lost, |all| code.recover(&kernel, all, &lost)), columns);
                assert_eq!(
                    recovered(&columns, &lost[..1], |all| code.recover(&kernel, all, &lost[..1])),
                    columns
                );
                assert_eq!(
                    recovered(&columns, &lost[1..], |all| code.recover(&kernel, all, &lost[1..])),
                    columns
                );
            }
        }
    }
}

#[test]
fn two_columns_are_recovered_in_the_published_order() {
    for value in vectors()["cases"].as_array().unwrap() {
        let RowDiagonalCase { code, columns } = case(value);
        let data = columns.len() - 2;
        for pair in value["double"].as_array().unwrap().iter().filter(|pair| pair["lost"][1] != "dp") {
            let Some(order) = pair["order"].as_str() else { continue };
            let names = [0, 1].map(|i| pair["lost"][i].as_str().unwrap());
            let places =
                names.map(|name| if name == "rp" { code.prime() - 1 } else { column_of(name, data) });
            let name = |place: usize| names[places.iter().position(|other| *other == place).unwrap()];
            let steps: Vec<String> = code
                .recovery_steps(places[0], places[1])
                .flat_map(|step| {
                    let row = step.row;
                    let first = format!("{}.{row}:D{}", name(step.from_diagonal), step.diagonal);
                    [first, format!("{}.{row}:R{row}", name(step.from_row))]
                })
                .collect();
            assert_eq!(steps.join(" "), order, "{} {names:?}", value["name"]);
        }
    }
}

#[test]
fn a_wrong_symbol_is_located_as_published() {
    for value in vectors()["cases"].as_array().unwrap() {
        let RowDiagonalCase { code, columns } = case(value);
        let symbol = columns[0].len() / (code.prime() - 1);
        for kernel in Kernel::available() {
            assert_eq!(code.check_consistency(&kernel, &slices(&columns)), Consistency::Consistent);
            for wrong in value["locate"].as_array().unwrap() {
                let column = column_of(wrong["col"].as_str().unwrap(), columns.len() - 2);
                let mut columns = columns.clone();
                columns[column][number(&wrong["row"]) * symbol] ^= number(&wrong["xor"]) as u8;
                assert_eq!(
                    code.check_consistency(&kernel, &slices(&columns)),
                    Consistency::OneColumn(column)
                );
            }
        }
    }
}

#[test]
fn p_and_q_agree_with_linux() {
    for value in vectors()["pq"].as_array().unwrap() {
        let mut columns: Vec<Vec<u8>> = value["data"].as_array().unwrap().iter().map(hex).collect();
        let data = columns.len();
        columns.extend([hex(&value["P"]), hex(&value["Q"])]);
        let code = ReedSolomon::new(2);
        for kernel in Kernel::available() {
            for lost in pairs(data + 2) {
                assert_eq!(recovered(&columns, &lost, |all| code.recover(&kernel, all, &lost)), columns);
            }
        }
    }
}

fn pairs(columns: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..columns).flat_map(move |one| (one + 1..columns).map(move |other| [one, other]))
}

/// Code under test.
#[derive(Clone, Copy, Debug)]
enum TestedCode {
    Sums(ReedSolomon),
    Diagonal(RowDiagonal),
}

impl TestedCode {
    fn parities(&self) -> usize {
        match self {
            TestedCode::Sums(code) => code.parities(),
            TestedCode::Diagonal(_) => 2,
        }
    }
    fn encode(&self, kernel: &Kernel, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut columns = data.to_vec();
        columns.extend(vec![vec![0x77; data[0].len()]; self.parities()]);
        let (data, parity) = columns.split_at_mut(data.len());
        let (data, mut parity) =
            (slices(data), parity.iter_mut().map(|block| &mut block[..]).collect::<Vec<_>>());
        match (self, &mut parity[..]) {
            (TestedCode::Sums(code), parity) => code.encode(kernel, &data, parity),
            (TestedCode::Diagonal(code), [rows, diagonals]) => code.encode(kernel, &data, rows, diagonals),
            _ => unreachable!(),
        }
        columns
    }
    fn recover(&self, kernel: &Kernel, columns: &mut [&mut [u8]], lost: &[usize]) {
        match self {
            TestedCode::Sums(code) => code.recover(kernel, columns, lost),
            TestedCode::Diagonal(code) => code.recover(kernel, columns, lost),
        }
    }
    fn update(&self, kernel: &Kernel, column: usize, delta: &[u8], parity: &mut [&mut [u8]]) {
        match self {
            TestedCode::Sums(code) => code.update(kernel, column, delta, parity),
            TestedCode::Diagonal(code) => code.update(kernel, column, delta, parity),
        }
    }
    fn check_consistency(&self, kernel: &Kernel, columns: &[Vec<u8>]) -> Consistency {
        match self {
            TestedCode::Sums(code) => code.check_consistency(kernel, &slices(columns)),
            TestedCode::Diagonal(code) => code.check_consistency(kernel, &slices(columns)),
        }
    }
}

/// Generates a code and its data columns. The length of a block need not be a multiple of the vector length.
fn rows() -> impl Strategy<Value = (TestedCode, Vec<Vec<u8>>)> {
    // Blocks of arbitrary length, and blocks of the length that arrays use.
    let sums = (1usize..=3, 1usize..20, prop_oneof![1usize..700, Just(4096)])
        .prop_map(|(m, n, len)| (TestedCode::Sums(ReedSolomon::new(m)), n, len));
    let diagonal = (
        // Symbol sizes that exercise each of the loops: arbitrary sizes, 256 bytes, and 16 bytes.
        prop::sample::select(vec![
            (5, 4, 4),
            (17, 16, 16 * 9),
            (5, 4, 1024),
            (17, 16, 4096),
            (17, 16, 512),
            (257, 40, 4096),
        ]),
        any::<u16>(),
    )
        .prop_map(|((p, most, len), n)| {
            (TestedCode::Diagonal(RowDiagonal::new(p)), 1 + usize::from(n) % most, len)
        });
    (prop_oneof![sums, diagonal], any::<u32>()).prop_map(|((code, n, len), seed)| {
        (code, generated(seed, n * len).chunks(len).map(<[u8]>::to_vec).collect())
    })
}

#[test]
fn all_kernels_agree_for_any_number_of_columns() {
    let data: Vec<Vec<u8>> = generated(7, 255 * 4096).chunks(4096).map(<[u8]>::to_vec).collect();
    let kernels = Kernel::available();
    let portable = kernels.last().unwrap();
    let codes = [
        (TestedCode::Sums(ReedSolomon::new(2)), 255),
        (TestedCode::Diagonal(RowDiagonal::new(17)), 16),
        (TestedCode::Diagonal(RowDiagonal::new(257)), 255),
    ];
    for (code, most) in codes {
        for columns in (1..=most.min(34)).chain([most]) {
            let mut data = data[..columns].to_vec();
            // One of the columns is empty, unless it is the only one.
            if columns > 1 {
                data[columns / 2].clear();
            }
            let expected = code.encode(portable, &data);
            for kernel in &kernels {
                assert_eq!(
                    code.encode(kernel, &data)[columns..],
                    expected[columns..],
                    "{kernel:?}, {columns} columns"
                );
            }
        }
    }
}

#[test]
fn parity_does_not_depend_on_memory_alignment() {
    const COLUMNS: usize = 255;
    const BLOCK: usize = 4096;
    let code = RowDiagonal::new(257);
    let [aligned, apart] = [BLOCK, BLOCK + 192].map(|stride| {
        let mut memory = IoBuffer::zeroed(COLUMNS * stride);
        let content = generated(3, COLUMNS * BLOCK);
        let places = memory.chunks_exact_mut(stride).zip(content.chunks_exact(BLOCK));
        places.for_each(|(place, content)| place[..BLOCK].copy_from_slice(content));
        (memory, stride)
    });
    for kernel in Kernel::available() {
        for count in (1..=34).chain([COLUMNS]) {
            let [aligned, apart] = [&aligned, &apart].map(|(memory, stride)| {
                let columns: Vec<&[u8]> =
                    memory.chunks_exact(*stride).take(count).map(|place| &place[..BLOCK]).collect();
                let [mut rows, mut diagonals] = [[0x77; BLOCK]; 2];
                code.encode(&kernel, &columns, &mut rows, &mut diagonals);
                (rows, diagonals)
            });
            assert_eq!(aligned, apart, "{kernel:?}, {count} columns");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_losses_up_to_the_parity_count_are_recovered((code, data) in rows(), choice in any::<[u16; 3]>()) {
        let kernels = Kernel::available();
        let columns = code.encode(&kernels[0], &data);
        for count in 1..=code.parities() {
            let mut lost: Vec<usize> = choice[..count].iter().map(|at| usize::from(*at) % columns.len()).collect();
            lost.sort_unstable();
            lost.dedup();
            for kernel in &kernels {
                prop_assert_eq!(&code.encode(kernel, &data), &columns);
                prop_assert_eq!(&recovered(&columns, &lost, |all| code.recover(kernel, all, &lost)), &columns);
            }
        }
    }

    #[test]
    fn an_update_produces_the_same_parity_as_full_encoding((code, data) in rows(), at in any::<u16>(), seed in any::<u32>()) {
        for kernel in Kernel::available() {
            let column = usize::from(at) % data.len();
            let mut columns = code.encode(&kernel, &data);
            let delta = generated(seed, data[0].len());
            let mut changed = data.clone();
            changed[column].iter_mut().zip(&delta).for_each(|(byte, delta)| *byte ^= delta);
            let parity = &mut columns[data.len()..];
            code.update(&kernel, column, &delta, &mut parity.iter_mut().map(|block| &mut block[..]).collect::<Vec<_>>());
            prop_assert_eq!(&columns[data.len()..], &code.encode(&kernel, &changed)[data.len()..]);
        }
    }

    #[test]
    fn parity_is_linear_and_unaffected_by_zero_columns((code, data) in rows(), seed in any::<u32>()) {
        let kernel = Kernel::available()[0];
        let len = data[0].len();
        let other: Vec<Vec<u8>> = generated(seed, data.len() * len).chunks(len).map(<[u8]>::to_vec).collect();
        let sum = |one: &[Vec<u8>], other: &[Vec<u8>]| -> Vec<Vec<u8>> {
            one.iter().zip(other).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a ^ b).collect()).collect()
        };
        let both = code.encode(&kernel, &sum(&data, &other));
        prop_assert_eq!(both, sum(&code.encode(&kernel, &data), &code.encode(&kernel, &other)));
        if let TestedCode::Sums(code) = code {
            let mut wider = data.clone();
            wider.push(vec![0; len]);
            let (wide, narrow) = (TestedCode::Sums(code).encode(&kernel, &wider), TestedCode::Sums(code).encode(&kernel, &data));
            prop_assert_eq!(&wide[wider.len()..], &narrow[data.len()..]);
        }
    }

    #[test]
    fn one_wrong_column_is_located((code, data) in rows(), at in any::<u16>(), seed in any::<u32>()) {
        let kernel = Kernel::available()[0];
        let mut columns = code.encode(&kernel, &data);
        prop_assert_eq!(code.check_consistency(&kernel, &columns), Consistency::Consistent);
        let column = usize::from(at) % columns.len();
        let error = generated(seed, columns[0].len());
        prop_assume!(error.iter().any(|byte| *byte != 0));
        columns[column].iter_mut().zip(&error).for_each(|(byte, error)| *byte ^= error);
        let expected = if code.parities() == 1 { Consistency::Inconsistent } else { Consistency::OneColumn(column) };
        prop_assert_eq!(code.check_consistency(&kernel, &columns), expected);
    }

    #[test]
    fn too_many_wrong_columns_are_not_attributed_to_parity((code, data) in rows(), seed in any::<u32>()) {
        // With errors in many bytes, two wrong data columns look like a single wrong column only by chance.
        prop_assume!(code.parities() > 1 && data.len() > 2 && data[0].len() > 128);
        let kernel = Kernel::available()[0];
        let mut columns = code.encode(&kernel, &data);
        for (column, seed) in [(0, seed), (2, seed ^ 0x5555_5555)] {
            let error = generated(seed, columns[0].len());
            columns[column].iter_mut().zip(&error).for_each(|(byte, error)| *byte ^= error);
        }
        prop_assert_eq!(code.check_consistency(&kernel, &columns), Consistency::Inconsistent);
    }
}

#[test]
fn the_fastest_kernel_is_supported_by_the_processor() {
    let sets: Vec<InstructionSet> = Kernel::available().iter().map(Kernel::instruction_set).collect();
    assert!(sets.contains(&InstructionSet::Portable));
    assert!(sets.contains(&Kernel::fastest(&RealClock::new()).instruction_set()));
    assert_eq!(Kernel::fastest(&SimClock::new()).instruction_set(), sets[0]);
}
