//! TLS: the server's certificate is verified, and an unverified server gets no request. The test
//! certificate is valid for `a.example` only.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use haft_net::fetch::Fetcher;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

use crate::fake_network::{FakeNetwork, PUBLIC, body, page};

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from(include_bytes!("../data/cert.der").as_slice())
}

/// A TLS server that answers every request with this page.
fn server(answer: Vec<u8>) -> SocketAddr {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(include_bytes!("../data/key.der").as_slice()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = stream.unwrap();
            let mut stream = rustls::Stream::new(&mut connection, &mut stream);
            // A client that distrusts the certificate disconnects before it sends a request.
            if stream.read(&mut [0; 4096]).is_ok() {
                let _ = stream.write_all(&answer);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    at
}

fn fetcher(names: &[&str], trusted: bool) -> (Fetcher, Arc<FakeNetwork>) {
    let world = Arc::new(FakeNetwork::default());
    let server = server(page("", b"sealed"));
    for name in names {
        world.name(name, &[&[PUBLIC]]);
    }
    world.route(&format!("{PUBLIC}:443"), server);
    let fetcher = Fetcher::new().with_network(world.clone());
    if !trusted {
        return (fetcher, world);
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (fetcher.with_tls(Arc::new(config)), world)
}

#[tokio::test]
async fn a_server_has_to_be_who_it_should_be() {
    let (trusting, world) = fetcher(&["a.example", "b.example"], true);
    assert_eq!(body(&trusting, "https://a.example/").await.unwrap(), "sealed");
    assert_eq!(world.dialed_addresses(), [format!("{PUBLIC}:443")]);
    let message = body(&trusting, "https://b.example/").await.unwrap_err();
    assert!(
        message.contains("the TLS handshake with `b.example:443` failed")
            && message.contains("not valid for name"),
        "{message}"
    );
    let (doubting, _) = fetcher(&["a.example"], false);
    let message = body(&doubting, "https://a.example/").await.unwrap_err();
    assert!(message.contains("the TLS handshake with `a.example:443` failed"), "{message}");
}
