//! A client that sends and reads bytes: what a library would hide (half a request, two at once, the header as it
//! came) is what the tests are about.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// How long an answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: &'static str,
    path: String,
    head: Vec<(String, String)>,
    body: Sent,
}

#[derive(Debug, Clone)]
enum Sent {
    Whole(Vec<u8>),
    Chunked(Vec<Vec<u8>>),
}

impl Call {
    pub(crate) fn new(method: &'static str, path: &str) -> Self {
        Self { method, path: path.to_owned(), head: Vec::new(), body: Sent::Whole(Vec::new()) }
    }

    /// An order with a key in quotes, of tenant-1's user.
    pub(crate) fn order(does: &str, key: &str, payload: &str) -> Self {
        Self::new("POST", &format!("/orders/{does}")).keyed(key).json(payload)
    }

    pub(crate) fn keyed(self, key: &str) -> Self {
        self.with("idempotency-key", &format!("\"{key}\""))
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.head.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, payload: &str) -> Self {
        Self { body: Sent::Whole(payload.as_bytes().to_vec()), ..self }.with("content-type", "application/json")
    }

    pub(crate) fn chunked(self, chunks: &[&[u8]]) -> Self {
        Self { body: Sent::Chunked(chunks.iter().map(|chunk| chunk.to_vec()).collect()), ..self }
    }

    /// The request as it is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut lines = vec![format!("{} {} HTTP/1.1", self.method, self.path), "host: localhost".to_owned()];
        lines.extend(self.head.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.push(match &self.body {
            Sent::Whole(body) => format!("content-length: {}", body.len()),
            Sent::Chunked(_) => "transfer-encoding: chunked".to_owned(),
        });
        let mut bytes = (lines.join("\r\n") + "\r\n\r\n").into_bytes();
        match &self.body {
            Sent::Whole(body) => bytes.extend_from_slice(body),
            Sent::Chunked(chunks) => {
                for chunk in chunks {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In order, with repeats.
    pub(crate) head: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.head.iter().find(|(of, _)| of == name)?;
        std::str::from_utf8(value).ok()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// What the handler said: without what the server (`date`) and the layer put there.
    pub(crate) fn said(mut self) -> Self {
        self.head.retain(|(name, _)| name != "date" && name != "idempotency-replayed");
        self
    }

    /// The `type` of a problem.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.header("content-type") != Some("application/problem+json") {
            return None;
        }
        let document: serde_json::Value = serde_json::from_slice(&self.body).expect("a problem is JSON");
        assert_eq!(document["status"], self.status, "{document}");
        Some(document["type"].as_str().expect("a problem has a type").to_owned())
    }

    /// Its status and, for a problem, its type: what most tests ask about.
    pub(crate) fn outcome(&self) -> (u16, Option<String>) {
        (self.status, self.problem())
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn open(server: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(server).await.expect("the server listens")))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.expect("the server takes it");
    }

    /// Waits for `100 Continue`, which the server sends when somebody begins to read the body.
    pub(crate) async fn is_being_read(&mut self) {
        let told = tokio::time::timeout(PATIENCE, async { (self.line().await, self.line().await) }).await;
        let (Ok(first), Ok(empty)) = told.expect("the body is read in time") else { panic!("the connection is gone") };
        assert!(first.starts_with(b"HTTP/1.1 100") && empty.is_empty(), "{}", String::from_utf8_lossy(&first));
    }

    /// The next answer on this connection.
    pub(crate) async fn receive(&mut self) -> Answer {
        let answer = tokio::time::timeout(PATIENCE, self.read()).await.expect("an answer comes in time");
        answer.unwrap_or_else(|error| panic!("no whole answer came: {error}"))
    }

    async fn read(&mut self) -> std::io::Result<Answer> {
        let status = self.line().await?;
        let status = status.split(|byte| *byte == b' ').nth(1).and_then(|code| std::str::from_utf8(code).ok());
        let mut answer = Answer {
            status: status.and_then(|code| code.parse().ok()).unwrap_or_default(),
            head: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or_default();
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            answer.head.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.chunks().await?;
        } else {
            let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
            answer.body = vec![0; length];
            self.0.read_exact(&mut answer.body).await?;
        }
        Ok(answer)
    }

    async fn chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.line().await?;
            let size = usize::from_str_radix(&String::from_utf8_lossy(&size), 16).unwrap_or_default();
            if size == 0 {
                // Trailers, and the empty line that ends them.
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            let begin = body.len();
            body.resize(begin + size, 0);
            self.0.read_exact(&mut body[begin..]).await?;
            self.line().await?;
        }
    }

    async fn line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        if self.0.read_until(b'\n', &mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_ascii_end().len());
        Ok(line)
    }
}

/// Asks on a connection of its own.
pub(crate) async fn ask(server: SocketAddr, call: &Call) -> Answer {
    let mut connection = Connection::open(server).await;
    connection.send(&call.bytes()).await;
    connection.receive().await
}
