//! Tests that series colours can be told apart with every kind of colour vision, and that they contrast with the
//! page.

/// A 3 × 3 matrix that is applied to linear red, green, and blue.
type Matrix = [[f64; 3]; 3];

/// Matrices that simulate the absence of one cone type. Source: G. M. Machado, M. M. Oliveira, L. A. F. Fernandes: A
/// Physiologically-based Model for Simulation of Color Vision Deficiency, IEEE Transactions on Visualization and
/// Computer Graphics 15 (6), 2009, severity 1.0.
const COLOUR_VISIONS: [(&str, Matrix); 4] = [
    ("full vision", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    ),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    (
        "tritanopia",
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ),
];

/// Matrix from linear sRGB (IEC 61966-2-1) to D65 tristimulus values.
const XYZ: Matrix =
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]];
const WHITE: [f64; 3] = [0.95047, 1.0, 1.08883];

/// Minimum distance between two colours in CIE L*a*b* (1976). Differences become visible at a distance of about 2;
/// thin lines need ten times as much.
const MIN_COLOUR_DISTANCE: f64 = 20.0;
/// Minimum contrast between graphical objects and the page (WCAG 2.2, 1.4.11).
const MIN_CONTRAST: f64 = 3.0;

fn times(matrix: &Matrix, v: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum())
}

fn linear(colour: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

fn lab(rgb: [f64; 3]) -> [f64; 3] {
    let xyz = times(&XYZ, rgb.map(|value| value.clamp(0.0, 1.0)));
    let cube = |t: f64| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 };
    let [x, y, z] = [0, 1, 2].map(|at| cube(xyz[at] / WHITE[at]));
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn luminance(colour: &str) -> f64 {
    times(&XYZ, linear(colour))[1]
}

/// Returns a property's values for the light page and the dark page.
fn property(name: &str) -> [String; 2] {
    let style = include_str!("colours.css");
    let found: Vec<&str> =
        style.split(&format!("--{name}: ")).skip(1).map(|rest| &rest[..rest.find(';').unwrap()]).collect();
    let [light, dark] = found[..] else { panic!("{name}: {found:?}") };
    // `#fff` is short for `#ffffff`.
    [light, dark].map(|value| match value.len() {
        4 => value.chars().skip(1).fold("#".into(), |all, digit| format!("{all}{digit}{digit}")),
        _ => value.to_string(),
    })
}

#[test]
fn series_are_distinguishable_with_any_colour_vision() {
    for scheme in [0, 1] {
        let colours: Vec<String> =
            (0..8).map(|series| property(&format!("series-{series}"))[scheme].clone()).collect();
        for (vision, matrix) in &COLOUR_VISIONS {
            let seen: Vec<[f64; 3]> =
                colours.iter().map(|colour| lab(times(matrix, linear(colour)))).collect();
            for (one, a) in seen.iter().enumerate() {
                for (other, b) in seen.iter().enumerate().skip(one + 1) {
                    let found = distance(*a, *b);
                    assert!(
                        found >= MIN_COLOUR_DISTANCE,
                        "{vision}, scheme {scheme}: series {one} and {other}: {found:.1}"
                    );
                }
            }
        }
    }
}

#[test]
fn series_and_verdicts_stand_out_from_the_page() {
    let paper = property("paper");
    let names = (0..8).map(|series| format!("series-{series}")).chain(["good".into(), "bad".into()]);
    for name in names {
        for (colour, paper) in property(&name).iter().zip(&paper) {
            let (a, b) = (luminance(colour), luminance(paper));
            let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
            assert!(contrast >= MIN_CONTRAST, "{name}: {colour} on {paper}: {contrast:.2}");
        }
    }
}

#[test]
fn the_colour_vision_simulation_matches_known_values() {
    let [_, (_, protanopia), (_, deuteranopia), (_, tritanopia)] = &COLOUR_VISIONS;
    let apart = |matrix: &Matrix, a: &str, b: &str| {
        distance(lab(times(matrix, linear(a))), lab(times(matrix, linear(b))))
    };
    // Greys remain grey, and colours on the same confusion line become similar.
    for (_, matrix) in &COLOUR_VISIONS {
        assert!(apart(matrix, "#808080", "#808080") < 1e-9);
        let [_, a, b] = lab(times(matrix, linear("#808080")));
        assert!(a.abs() < 1.0 && b.abs() < 1.0, "{a} {b}");
    }
    let red_and_green = |matrix| apart(matrix, "#ff0000", "#00ff00");
    assert!(red_and_green(tritanopia) > 2.0 * red_and_green(deuteranopia).min(red_and_green(protanopia)));
}
