//! Connections to a real NATS server that requires a client certificate, a JWT or an nkey. With correct secrets,
//! messages are delivered. With other secrets, the connection fails with a one-line message.
//!
//! Without `nats-server` and `openssl` these tests print a message and pass. With `JETCELL_REQUIRE_NATS=1` they fail
//! instead.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use data_encoding::BASE64URL_NOPAD;
use jetcell_fleet::bus::{Bus, NatsAccess, NatsBus};
use nkeys::{KeyPair, KeyPairType};
use serde_json::{Value, json};
use testkit::certificates::{make_authority, make_certificate};

/// Time-out that is longer than a server start or a message takes on a busy host.
const TIMEOUT: Duration = Duration::from_secs(30);

fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Returns true if the programs that these tests need are installed.
fn is_ready() -> bool {
    let missing: Vec<&str> =
        ["nats-server", "openssl"].into_iter().filter(|name| find_program(name).is_none()).collect();
    if !missing.is_empty() {
        skip(TestRequirement::Nats, format!("not installed: {missing:?} (scripts/setup-nats.sh)"));
    }
    missing.is_empty()
}

/// A server with its own configuration. It is stopped at the end of the test.
struct SecuredServer {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Drop for SecuredServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl SecuredServer {
    fn start(directory: tempfile::TempDir, configuration: &str) -> SecuredServer {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = directory.path().join("server.conf");
        fs::write(&file, format!("listen: \"127.0.0.1:{port}\"\n{configuration}")).unwrap();
        let mut command = Command::new(find_program("nats-server").unwrap());
        command.arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = SecuredServer { child: command.spawn().unwrap(), port, directory };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.child.try_wait().unwrap().is_some() {
                let mut said = String::new();
                std::io::Read::read_to_string(&mut server.child.stderr.take().unwrap(), &mut said).unwrap();
                panic!("nats-server ended: {said}");
            }
            assert!(began.elapsed() < TIMEOUT, "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn access(&self, scheme: &str) -> NatsAccess {
        NatsAccess { url: format!("{scheme}://127.0.0.1:{}", self.port), ..NatsAccess::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path
    }
}

/// Opens two connections and verifies that one receives the messages that the other publishes.
#[track_caller]
fn messages_pass(access: &NatsAccess) {
    let receiver = NatsBus::connect(access, &["jetcell.fleet.f.hosts".into()]).unwrap();
    let sender = NatsBus::connect(access, &[]).unwrap();
    let began = Instant::now();
    loop {
        sender.publish("jetcell.fleet.f.hosts", b"hello".to_vec());
        match receiver.receive(Duration::from_millis(100)) {
            Some(bytes) => return assert_eq!(bytes, b"hello"),
            None => assert!(began.elapsed() < TIMEOUT, "no message arrives"),
        }
    }
}

#[track_caller]
fn is_refused(access: &NatsAccess, expected: &str) {
    let Err(error) = NatsBus::connect(access, &[]) else { panic!("the connection was made: {access:?}") };
    let said = error.to_string();
    assert!(said.contains(expected) && !said.contains('\n'), "{said}");
}

/// Creates a certificate authority, a certificate for a server at 127.0.0.1, and a client certificate. Also creates a
/// client certificate of an authority that the server does not know.
fn certificates(directory: &Path) {
    for authority in ["ca", "other-ca"] {
        make_authority(directory, authority);
    }
    for (name, authority) in [("server", "ca"), ("client", "ca"), ("stranger", "other-ca")] {
        make_certificate(directory, authority, name, "IP:127.0.0.1");
    }
}

#[test]
fn only_client_certificates_from_the_trusted_authority_are_accepted() {
    if !is_ready() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let shown = |name: &str| directory.path().join(name).display().to_string();
    let configuration = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n",
        shown("server.pem"),
        shown("server.key"),
        shown("ca.pem")
    );
    let server = SecuredServer::start(directory, &configuration);
    let client = |name: &str, authority: &str| NatsAccess {
        tls_ca: Some(server.path(authority)),
        tls_client: Some((server.path(&format!("{name}.pem")), server.path(&format!("{name}.key")))),
        ..server.access("tls")
    };
    messages_pass(&client("client", "ca.pem"));
    is_refused(&client("stranger", "ca.pem"), "failed to connect");
    is_refused(&client("client", "other-ca.pem"), "failed to connect");
    is_refused(&NatsAccess { tls_client: None, ..client("client", "ca.pem") }, "failed to connect");
}

/// Creates a JWT that is signed by `issuer`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: Value) -> String {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let body = json!({
        "jti": name,
        "iat": 1_700_000_000,
        "iss": issuer.public_key(),
        "sub": subject.public_key(),
        "name": name,
        "nats": claims,
    });
    let part = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(header), part(body));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// Returns the content of the file that `nsc` writes for a user.
fn credentials(jwt: &str, user: &KeyPair) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        user.seed().unwrap()
    )
}

#[test]
fn only_credentials_from_the_operator_accounts_are_accepted() {
    if !is_ready() {
        return;
    }
    let pair = |kind| KeyPair::new(kind);
    let (operator, account, user) =
        (pair(KeyPairType::Operator), pair(KeyPairType::Account), pair(KeyPairType::User));
    let of_operator = jwt(&operator, &operator, "site", json!({ "type": "operator", "version": 2 }));
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    });
    let of_account =
        jwt(&operator, &account, "fleets", json!({ "type": "account", "version": 2, "limits": limits }));
    let rights = json!({
        "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1,
    });
    let configuration = format!(
        "operator: \"{of_operator}\"\nresolver: MEMORY\nresolver_preload: {{ {}: \"{of_account}\" }}\n",
        account.public_key()
    );
    let server = SecuredServer::start(tempfile::tempdir().unwrap(), &configuration);
    let with = |name: &str, text: &str| NatsAccess {
        credentials: Some(server.write(name, text)),
        ..server.access("nats")
    };
    let of_user = jwt(&account, &user, "jetcell", rights.clone());
    messages_pass(&with("fleet.creds", &credentials(&of_user, &user)));
    // The cases are a JWT signed by an account that the server does not know, the seed of another user, no secret,
    // and no credentials.
    let other = pair(KeyPairType::Account);
    let foreign = jwt(&other, &user, "jetcell", rights);
    is_refused(&with("foreign.creds", &credentials(&foreign, &user)), "failed to connect");
    let stolen = credentials(&of_user, &pair(KeyPairType::User));
    is_refused(&with("stolen.creds", &stolen), "failed to connect");
    is_refused(&with("garbage.creds", "no credentials"), "garbage.creds");
    is_refused(&server.access("nats"), "failed to connect");
}

#[test]
fn only_seeds_of_configured_nkeys_are_accepted() {
    if !is_ready() {
        return;
    }
    let (user, stranger) = (KeyPair::new(KeyPairType::User), KeyPair::new(KeyPairType::User));
    let configuration = format!("authorization {{ users: [ {{ nkey: {} }} ] }}\n", user.public_key());
    let server = SecuredServer::start(tempfile::tempdir().unwrap(), &configuration);
    let with = |name: &str, pair: &KeyPair| NatsAccess {
        nkey_file: Some(server.write(name, &pair.seed().unwrap())),
        ..server.access("nats")
    };
    messages_pass(&with("user.nk", &user));
    is_refused(&with("stranger.nk", &stranger), "failed to connect");
}
