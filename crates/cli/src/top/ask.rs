//! Questions to the metrics address of a server.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::look::Look;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest page that is read \[bytes\]: a server's has up to 256 transfers of some 600 bytes.
const LONGEST: usize = 1 << 20;
/// Longest head of an answer \[bytes\].
const LONGEST_HEAD: usize = 16 << 10;

/// A connection at work, which ends with this.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a server does now; or why that is not known, in words.
pub async fn look_at(server: SocketAddr) -> Result<Look, String> {
    let page = timeout(PATIENCE, fetch(server)).await;
    let page = page.unwrap_or_else(|_| Err("no answer".to_owned()))?;
    Look::of(&page)
}

async fn fetch(server: SocketAddr) -> Result<Bytes, String> {
    let stream = TcpStream::connect(server).await.map_err(|error| error.to_string())?;
    let mut client = http1::Builder::new();
    client.max_buf_size(LONGEST_HEAD);
    let (mut requests, connection) =
        client.handshake(TokioIo::new(stream)).await.map_err(not_http)?;
    let _connection = Connection(tokio::spawn(async move {
        // What goes wrong is told by the request.
        let _ = connection.await;
    }));
    let request = Request::get("/transfers")
        .header(HOST, server.to_string())
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = requests.send_request(request).await.map_err(not_http)?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::SERVICE_UNAVAILABLE => {
            return Err("the server's loop does not answer".to_owned());
        }
        status => return Err(format!("no metrics of wellspring serve: {status}")),
    }
    let page = Limited::new(answer.into_body(), LONGEST).collect().await;
    page.map(|page| page.to_bytes()).map_err(|error| format!("the page cannot be read: {error}"))
}

fn not_http(error: impl Display) -> String {
    format!("no metrics of wellspring serve: {error}")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use wellspring_testkit::loopback::own_address;

    /// What is said of a server that answers that.
    fn said(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("asked");
            let _ = stream.read(&mut [0; 1_024]);
            // A client that has had enough closes the connection.
            let _ = stream.write_all(&answer);
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let looked = runtime.expect("a runtime").block_on(look_at(address));
        server.join().expect("no panic");
        looked.expect_err("no page of a server")
    }

    #[test]
    fn answers_that_are_no_pages_are_refused_in_words() {
        let page = |body: &[u8]| [b"HTTP/1.1 200 OK\r\n\r\n", body].concat();
        assert!(said(page(&b"[".repeat(LONGEST + 1))).contains("cannot be read"));
        assert!(said(page(b"")).contains("no JSON"));
        let head = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), b"y".repeat(2 * LONGEST_HEAD)].concat();
        for answer in [b"SSH-2.0-x\r\n".to_vec(), b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec(), head]
        {
            let said = said(answer);
            assert!(said.starts_with("no metrics of wellspring serve"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_told() {
        let closed = TcpListener::bind(own_address()).and_then(|port| port.local_addr());
        let error = look_at(closed.expect("a port")).await.expect_err("closed");
        assert!(error.contains("refused"), "{error}");
    }
}
