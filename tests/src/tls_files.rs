//! Certificates and a token for processes that communicate over TLS.

use std::path::{Path, PathBuf};

use testkit::certificates::{make_authority, make_certificate};

/// Directory with the certificate of an authority, the certificate and key of a server named `localhost`, and a
/// token.
pub struct TlsFiles(PathBuf);

impl TlsFiles {
    /// Creates the files in a directory.
    pub fn create(directory: &Path) -> TlsFiles {
        let files = TlsFiles(directory.to_path_buf());
        make_authority(directory, "ca");
        make_certificate(directory, "ca", "server", "DNS:localhost");
        std::fs::write(files.path("token"), "a token of this test\n").expect("the directory exists");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(files.path("token"), private).expect("the file is there");
        files
    }

    /// Returns the existing files in a directory.
    pub fn open(directory: &Path) -> TlsFiles {
        TlsFiles(directory.to_path_buf())
    }

    /// Returns the path of `ca.pem`, `server.pem`, `server.key`, or `token`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
