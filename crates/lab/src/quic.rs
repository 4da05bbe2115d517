//! `wellspring-lab quic`: files over QUIC by quinn, to compare transfers with.

use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig,
    TransportConfig,
};
use quinn::{IdleTimeout, MtuDiscoveryConfig, TokioRuntime, VarInt};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::net::sockopt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, block_in_place};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::usage::cpu_seconds;

/// Protocol name of the handshake (RFC 7301).
const ALPN: &[u8] = b"wellspring-lab";
/// Flow-control windows \[bytes\]: more than any path of the laboratory holds, so that congestion control alone
/// decides the rate. quinn's default of a stream ends at 12.5 MB/s and 100 ms.
const WINDOW: u32 = 64 << 20;
/// Bytes read from a file, and written to a stream, at a time.
const PIECE: usize = 256 << 10;
/// Longest name of an object \[bytes\].
const NAME: usize = 4 << 10;
/// Objects being fetched at one time: quinn allows 100 streams.
const AT_ONCE: usize = 64;
/// Buffers of the sockets \[bytes\], as ours.
const BUFFER: usize = 4 << 20;
/// Longest datagram \[bytes\]: as ours, more than Ethernet's where the path takes it, as over loopback.
const DATAGRAM: u16 = 8_960;

/// Move files over QUIC, as a peer to measure against.
#[derive(Args, Clone, Debug)]
pub struct QuicArgs {
    #[command(subcommand)]
    command: QuicCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum QuicCommand {
    Serve(ServeArgs),
    Get(GetArgs),
}

/// Serve the files of a directory, until Ctrl-C, with a certificate made for the occasion.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab quic serve objects --bind 127.0.0.1:4433")]
struct ServeArgs {
    /// The directory.
    dir: PathBuf,
    /// Address and port to listen at.
    #[arg(long, value_name = "ADDR")]
    bind: SocketAddr,
    /// Congestion control of what is sent.
    #[arg(long, value_enum, default_value_t)]
    congestion: Congestion,
}

/// Fetch files over one connection, from whoever is there: no certificate is checked.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab quic get 127.0.0.1:4433 object -o copy
  wellspring-lab quic get 127.0.0.1:4433 --from names -o folder --json")]
struct GetArgs {
    /// The server.
    server: SocketAddr,
    /// The files.
    names: Vec<String>,
    /// Fetch the files that a file names, too, one a line.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// File or directory to write to; `-` is standard output.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// End after so many seconds, whether all has come or not.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    patience: f64,
    /// Print what came, and how fast, as a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Congestion {
    /// CUBIC, which is quinn's default.
    #[default]
    Cubic,
    /// quinn's BBR, which it calls experimental.
    Bbr,
}

pub fn run(args: QuicArgs, runtime: &Runtime) -> Result<(), Failed> {
    match args.command {
        QuicCommand::Serve(args) => runtime.block_on(serve(args)),
        QuicCommand::Get(args) => runtime.block_on(get(args)),
    }
}

/// The error with all that it came from.
fn failed(what: &str, error: &dyn Error) -> Failed {
    let mut said = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push(error.to_string());
        cause = error.source();
    }
    said.dedup();
    Failed::other(format!("{what}: {}", said.join(": ")))
}

/// A socket of this host, with buffers as large as ours.
fn endpoint(bind: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint, Failed> {
    let at = |error: io::Error| Failed::system(bind, &error);
    let socket = UdpSocket::bind(bind).map_err(at)?;
    // Beyond the system's limit only root may go, and up to it whoever asks.
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, BUFFER).map_err(|e| at(e.into()))?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, BUFFER).map_err(|e| at(e.into()))?;
    }
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(DATAGRAM).map_err(|e| failed("datagrams", &e))?;
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).map_err(at)
}

fn transport(congestion: Congestion) -> Result<Arc<TransportConfig>, Failed> {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW)).send_window(u64::from(WINDOW));
    let idle = IdleTimeout::try_from(Duration::from_secs(10)).map_err(|e| failed("timeout", &e))?;
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(DATAGRAM);
    transport.mtu_discovery_config(Some(discovery));
    transport.max_idle_timeout(Some(idle));
    match congestion {
        Congestion::Cubic => {
            transport.congestion_controller_factory(Arc::new(CubicConfig::default()))
        }
        Congestion::Bbr => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
    };
    Ok(Arc::new(transport))
}

async fn serve(args: ServeArgs) -> Result<(), Failed> {
    let bad = |error: &dyn Error| failed("certificate", error);
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).map_err(|error| bad(&error))?;
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| bad(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .map_err(|error| bad(&error))?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicServerConfig::try_from(tls).map_err(|error| bad(&error))?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport(args.congestion)?);
    let endpoint = endpoint(args.bind, Some(config))?;
    let dir: Arc<Path> = args.dir.into();
    Interrupt::new()?
        .guard(async {
            while let Some(incoming) = endpoint.accept().await {
                let dir = dir.clone();
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else { return };
                    while let Ok((send, receive)) = connection.accept_bi().await {
                        let dir = dir.clone();
                        tokio::spawn(async move {
                            if let Err(error) = answer(send, receive, &dir).await {
                                writeln!(Stderr, "{error}");
                            }
                        });
                    }
                });
            }
        })
        .await
}

/// Sends the file whose name a stream holds.
async fn answer(mut send: SendStream, mut receive: RecvStream, dir: &Path) -> io::Result<()> {
    let name = receive.read_to_end(NAME).await.map_err(io::Error::other)?;
    let name = String::from_utf8(name).map_err(io::Error::other)?;
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a file"));
    }
    let mut file = File::open(dir.join(name))?;
    let mut piece = vec![0; PIECE];
    loop {
        match block_in_place(|| file.read(&mut piece))? {
            0 => return send.finish().map_err(io::Error::other),
            length => send.write_all(&piece[..length]).await.map_err(io::Error::other)?,
        }
    }
}

async fn get(args: GetArgs) -> Result<(), Failed> {
    let mut names: VecDeque<String> = args.names.into();
    if let Some(list) = &args.from {
        let text = std::fs::read_to_string(list)
            .map_err(|error| Failed::system(list.display(), &error))?;
        names.extend(text.lines().map(str::to_owned));
    }
    let into_dir = names.len() > 1;
    let started = Instant::now();
    let received = Arc::new(AtomicU64::new(0));
    let output: Arc<Path> = args.output.into();
    let fetch = async {
        let connection = connect(args.server).await?;
        let mut running = JoinSet::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(name) = names.pop_front()
            {
                let path = if into_dir { output.join(&name).into() } else { output.clone() };
                running.spawn(fetch(connection.clone(), name, path, received.clone()));
            }
            match running.join_next().await {
                Some(done) => {
                    done.map_err(|e| failed("task", &e))?.map_err(|e| failed("get", &e))?;
                }
                None => break,
            }
        }
        connection.close(VarInt::from_u32(0), b"");
        Ok::<_, Failed>(())
    };
    let patience = Duration::try_from_secs_f64(args.patience)
        .map_err(|_| Failed::usage("--patience is a number of seconds"))?;
    let fetch = tokio::time::timeout(patience, fetch);
    let whole = match Interrupt::new()?.guard(fetch).await? {
        Ok(ended) => ended.map(|()| true)?,
        Err(_) => false,
    };
    let (seconds, bytes) = (started.elapsed().as_secs_f64(), received.load(Ordering::Relaxed));
    let report = json!({"bytes": bytes, "seconds": seconds, "whole": whole,
        "goodput_bits_per_second": bytes as f64 * 8.0 / seconds, "cpu_seconds": cpu_seconds(None)});
    if args.json {
        writeln!(Stdout, "{report}")?;
    }
    Ok(())
}

async fn connect(server: SocketAddr) -> Result<Connection, Failed> {
    let bad = |error: &dyn Error| failed("connection", error);
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| bad(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(|error| bad(&error))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport(Congestion::default())?);
    let endpoint = endpoint((Ipv4Addr::UNSPECIFIED, 0).into(), None)?;
    let connecting =
        endpoint.connect_with(config, server, "localhost").map_err(|error| bad(&error))?;
    connecting.await.map_err(|error| bad(&error))
}

/// Fetches one file.
async fn fetch(
    connection: Connection,
    name: String,
    path: Arc<Path>,
    received: Arc<AtomicU64>,
) -> io::Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(name.as_bytes()).await?;
    send.finish()?;
    let mut to: Box<dyn Write + Send> = match path.as_os_str() == "-" {
        true => Box::new(io::stdout()),
        false => Box::new(File::create(&path)?),
    };
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        block_in_place(|| to.write_all(&chunk.bytes))?;
    }
    to.flush()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Takes any certificate: what is measured is the transfer.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
