//! Verifies the output of `--explain` with an independent calculator, which reads only the printed text.

use std::iter::Peekable;
use std::str::Chars;

use jetcell_sizing::sheet::SheetLine;
use jetcell_sizing::{Config, DiskCatalogue, EXAMPLE, size};

/// A calculator for the printed formulas: numbers, `+ - * / ( )` and the five functions.
struct Calculator<'a>(Peekable<Chars<'a>>);

impl Calculator<'_> {
    fn value(text: &str) -> f64 {
        let mut calculator = Calculator(text.chars().peekable());
        let value = calculator.sum();
        assert_eq!(calculator.next(), None, "{text}");
        value
    }

    fn next(&mut self) -> Option<char> {
        while self.0.next_if(|c| *c == ' ').is_some() {}
        self.0.peek().copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        self.next();
        self.0.next_if_eq(&wanted).is_some()
    }

    fn sum(&mut self) -> f64 {
        let mut value = self.product();
        loop {
            if self.take('+') {
                value += self.product();
            } else if self.take('-') {
                value -= self.product();
            } else {
                return value;
            }
        }
    }

    fn product(&mut self) -> f64 {
        let mut value = self.factor();
        loop {
            if self.take('*') {
                value *= self.factor();
            } else if self.take('/') {
                value /= self.factor();
            } else {
                return value;
            }
        }
    }

    fn factor(&mut self) -> f64 {
        if self.take('-') {
            return -self.factor();
        }
        if self.take('(') {
            let value = self.sum();
            assert!(self.take(')'));
            return value;
        }
        let mut word = String::new();
        self.next();
        while let Some(c) = self.0.next_if(|c| c.is_ascii_alphanumeric() || *c == '.' || *c == '_') {
            word.push(c);
        }
        if let Ok(number) = word.parse() {
            return number;
        }
        assert!(self.take('('), "'{word}' has no number");
        let first = self.sum();
        let second = if self.take(',') { Some(self.sum()) } else { None };
        assert!(self.take(')'));
        match (word.as_str(), second) {
            // Printed numbers have eight digits, so the last digit of a whole number may be wrong.
            ("ceil", None) => (first - first.abs() * 1e-6).ceil(),
            ("floor", None) => (first + first.abs() * 1e-6).floor(),
            ("max", Some(second)) => first.max(second),
            ("min", Some(second)) => first.min(second),
            ("power", Some(second)) => first.powf(second),
            other => panic!("unknown function {other:?}"),
        }
    }
}

#[test]
fn every_printed_formula_gives_the_printed_value() {
    let shared = EXAMPLE.replace("apart = true", "apart = false").replace("copies = 2", "copies = 3");
    let jbod = EXAMPLE.replace("{ raid = \"raid10\" },", "{ raid = \"jbod\" }, { raid = \"mirror3\" },");
    let measured = EXAMPLE.replace("# iops", "iops").replace("# write_share", "write_share");
    let old = EXAMPLE.replace("exchange-2013", "exchange-2007").replace("count = 3 ", "count = 2 ");
    let mut formulas = 0;
    for text in [EXAMPLE, &shared, &jbod, &measured, &old] {
        let sizing = size(&Config::read("test", text).unwrap(), &DiskCatalogue::built_in()).unwrap();
        for line in sizing.sheet.lines() {
            let SheetLine::Formula { name, formula, numbers, value, .. } = line else { continue };
            let by_hand = Calculator::value(numbers);
            let error = (by_hand - value).abs();
            assert!(
                error <= value.abs() * 2e-6 + 1e-6,
                "{name} = {formula} = {numbers} = {value}, not {by_hand}"
            );
            formulas += 1;
        }
    }
    assert!(formulas > 1000, "{formulas}");
}
