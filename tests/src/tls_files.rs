//! Certificates and a token for processes that reach each other over TLS, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of an authority, of a server named `localhost`, and with a token.
pub struct TlsFiles(PathBuf);

impl TlsFiles {
    /// Makes the files in a directory.
    pub fn create(directory: &Path) -> TlsFiles {
        let files = TlsFiles(directory.to_path_buf());
        let curve = "ec_paramgen_curve:P-256";
        files.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            curve,
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ]);
        files.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            curve,
            "-nodes",
            "-subj",
            "/CN=server",
            "-keyout",
            "server.key",
            "-out",
            "request",
        ]);
        std::fs::write(files.path("names"), "subjectAltName=DNS:localhost\n")
            .expect("the directory is there");
        files.openssl(&[
            "x509",
            "-req",
            "-in",
            "request",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "names",
            "-out",
            "server.pem",
        ]);
        std::fs::write(files.path("token"), "a token of this test\n").expect("the directory is there");
        files
    }

    /// The files in a directory in which they were made.
    pub fn of(directory: &Path) -> TlsFiles {
        TlsFiles(directory.to_path_buf())
    }

    /// `ca.pem`, `server.pem`, `server.key` or `token`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn openssl(&self, words: &[&str]) {
        let output =
            Command::new("openssl").args(words).current_dir(&self.0).output().expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
