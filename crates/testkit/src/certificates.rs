//! Certificates for TLS tests, created with the `openssl` program. `NAME.pem` is NAME's certificate, and `NAME.key`
//! is its private key.

use std::path::Path;
use std::process::Command;

const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
/// Validity period of the certificates, longer than any test.
const DAYS: [&str; 2] = ["-days", "2"];

fn openssl(directory: &Path, words: &[&str]) {
    let output = Command::new("openssl").args(words).current_dir(directory).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a certificate authority.
pub fn make_authority(directory: &Path, name: &str) {
    let (file, key, subject) = (format!("{name}.pem"), format!("{name}.key"), format!("/CN={name}"));
    let words = ["req", "-x509", "-subj", &subject, "-keyout", &key, "-out", &file];
    openssl(directory, &[&words, &KEY[..], &DAYS].concat());
}

/// Creates a certificate for the given alternative names, such as `DNS:localhost`, signed by an authority in the same
/// directory.
pub fn make_certificate(directory: &Path, authority: &str, name: &str, alternative: &str) {
    let [request, names] = ["request", "names"].map(|ending| format!("{name}.{ending}"));
    let (file, key, subject) = (format!("{name}.pem"), format!("{name}.key"), format!("/CN={name}"));
    let words = ["req", "-subj", &subject, "-keyout", &key, "-out", &request];
    openssl(directory, &[&words, &KEY[..]].concat());
    std::fs::write(directory.join(&names), format!("subjectAltName={alternative}\n"))
        .expect("the directory exists");
    let (signer, signs) = (format!("{authority}.pem"), format!("{authority}.key"));
    let words = ["x509", "-req", "-in", &request, "-CA", &signer, "-CAkey", &signs, "-CAcreateserial"];
    openssl(directory, &[&words, &DAYS[..], &["-extfile", &names, "-out", &file]].concat());
}
