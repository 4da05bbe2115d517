//! HTTP server of a server's metrics, health and readiness.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use wellspring_console::exit::Failed;
use wellspring_net::without_missing_ipv6;
use wellspring_server::Server;

use super::{metrics, transfers};

/// How long a client may take for its request, and the driver for its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A connection that is kept open ends after so long.
const LONGEST: Duration = Duration::from_secs(300);
/// Connections at one time, at most; further ones are closed at once.
const CONNECTIONS: usize = 64;
/// Pause after an error of the listener, such as too many open files.
const AGAIN: Duration = Duration::from_millis(50);

/// A running HTTP server.
pub struct Http {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Http {
    /// Ends it, with its connections.
    pub async fn stop(self) {
        self.task.abort();
        // Cancelled: that is what was asked for.
        let _ = self.task.await;
    }
}

/// Answers HTTP at that address: of the server, and of the directory that it serves.
///
/// # Errors
/// The address cannot be listened at.
pub async fn serve(at: SocketAddr, server: Arc<Server>) -> Result<Http, Failed> {
    let failed = |error| {
        Failed::system(format_args!("cannot listen at {at}"), &error)
            .hint("Choose another address by --metrics; port 0 lets the system choose.")
    };
    let listener = TcpListener::bind(without_missing_ipv6(at)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let task = tokio::spawn(accept(listener, server));
    Ok(Http { address, task })
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let server = Arc::clone(&server);
        connections.spawn(async move {
            // A client that leaves or is slow is its own loss.
            let _ = tokio::time::timeout(LONGEST, attend(stream, server)).await;
            drop(place);
        });
    }
}

async fn attend(stream: TcpStream, server: Arc<Server>) -> Result<(), hyper::Error> {
    let answering = service_fn(move |request: Request<Incoming>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answer(&request, server).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), answering)
        .await
}

async fn answer(request: &Request<Incoming>, server: Arc<Server>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
    }
    match request.uri().path() {
        "/metrics" => match ask(server, metrics::of).await {
            Some(metrics) => page(metrics, metrics::CONTENT_TYPE),
            None => text(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER),
        },
        "/transfers" if !is_asked_by_address(request) => {
            text(StatusCode::FORBIDDEN, "ask by the address, not by a name\n")
        }
        "/transfers" => match ask(server, transfers::of).await {
            Some(transfers) => page(transfers, "application/json"),
            None => text(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER),
        },
        "/healthz" => match ask(server, |server| server.statistics().ok()).await {
            Some(_) => text(StatusCode::OK, "ok\n"),
            None => text(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER),
        },
        "/readyz" if server.is_draining() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
        }
        "/readyz" => {
            let readable = |server: &Server| {
                let listed = server.check_directory();
                server.statistics().ok().map(|_| listed)
            };
            match ask(server, readable).await {
                Some(Ok(())) => text(StatusCode::OK, "ready\n"),
                Some(Err(_)) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, "the directory cannot be read\n")
                }
                None => text(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER),
            }
        }
        _ => text(StatusCode::NOT_FOUND, "/metrics, /transfers, /healthz or /readyz\n"),
    }
}

/// Whether a request names the server by an address. A page that a browser shows can only ask servers that have the
/// page's own name, whatever address that name has been given; names of objects are none of its business.
fn is_asked_by_address(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    host.parse::<SocketAddr>().is_ok() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn page(page: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(page.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const NO_ANSWER: &str = "the server does not answer\n";

/// What `question` finds on a thread that may wait; `None` if that takes too long.
async fn ask<T: Send + 'static>(
    server: Arc<Server>,
    question: impl FnOnce(&Server) -> Option<T> + Send + 'static,
) -> Option<T> {
    let asked = tokio::task::spawn_blocking(move || question(&server));
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
