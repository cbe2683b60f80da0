//! wrk, the program that makes the load (<https://github.com/wg/wrk>).

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;

use crate::contest::Round;
use crate::load::OVERTIME;

const SCRIPT: &str = include_str!("../../../wrk/orders.lua");

/// wrk's answer-time limit: later answers would be missing in its percentiles, so they end the run.
const ANSWER_LIMIT: &str = "10s";

/// What to say where it is missing.
pub(crate) const MISSING: &str =
    "wrk, which makes the load of the part http, is not on the PATH (Debian: apt-get install wrk)";

/// wrk, and the script that it runs.
#[derive(Debug)]
pub(crate) struct Wrk {
    /// Its name, version and event loop.
    pub(crate) version: String,
    program: &'static str,
    script: NamedTempFile,
}

/// Which requests are sent.
#[derive(Debug)]
pub(super) struct Sequence {
    /// What all keys begin with: 16 hexadecimal digits.
    pub(super) prefix: String,
    /// How many orders there are that are sent again and again; 0: each is new.
    pub(super) repeats: u32,
}

/// What wrk says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Loaded {
    /// Requests that were answered.
    pub(super) requests: u64,
    duration_us: u64,
    p50_us: u64,
    p99_us: u64,
    /// Answers whose status was above 399.
    statuses: u64,
    /// Sockets that failed.
    sockets: u64,
    /// Answers that took longer than [`ANSWER_LIMIT`].
    timeouts: u64,
}

impl Wrk {
    /// The one on the PATH; `None` if there is none.
    pub(crate) async fn find() -> anyhow::Result<Option<Self>> {
        Self::named("wrk").await
    }

    async fn named(program: &'static str) -> anyhow::Result<Option<Self>> {
        // It says its version, and then that no URL was given.
        let output = match Command::new(program).arg("-v").stdin(Stdio::null()).output().await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            output => output.with_context(|| format!("{program} does not start"))?,
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split(" Copyright").next().unwrap_or_default().trim().to_owned();
        ensure!(version.starts_with("wrk "), "the program wrk on the PATH is another one: it says {text:?}");
        let mut script = tempfile::Builder::new().suffix(".lua").tempfile()?;
        script.write_all(SCRIPT.as_bytes())?;
        Ok(Some(Self { version, program, script }))
    }

    /// So many connections, each of which sends its next request when the last was answered, for whole seconds.
    pub(super) async fn load(
        &self,
        server: SocketAddr,
        connections: u32,
        time: Duration,
        sequence: &Sequence,
    ) -> anyhow::Result<Loaded> {
        let seconds = whole_seconds(time).as_secs();
        let mut command = Command::new(self.program);
        // One thread: where more of them run than there are cores, the server waits for the clients.
        command.args(["--threads", "1", "--timeout", ANSWER_LIMIT]);
        command.args(["--connections", &connections.to_string(), "--duration", &format!("{seconds}s")]);
        command.arg("--script").arg(self.script.path());
        command.arg(format!("http://{server}/")).arg("--");
        command.args([&sequence.prefix, &sequence.repeats.to_string()]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(whole_seconds(time) + OVERTIME, command.output()).await.context("wrk does not end")??;
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "wrk ended with {}: {complained}", output.status);
        parse(&said).with_context(|| format!("wrk: {complained}"))
    }
}

/// wrk measures for no less.
pub(crate) fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// The line of the script's `done`, and whether all went well.
fn parse(said: &str) -> anyhow::Result<Loaded> {
    let line = said.lines().find(|line| line.starts_with('{')).context("there is no result")?;
    let loaded: Loaded = serde_json::from_str(line)?;
    let Loaded { statuses, sockets, timeouts, .. } = loaded;
    if (statuses, sockets, timeouts) != (0, 0, 0) {
        bail!("{statuses} answers with an error status, {sockets} sockets failed, {timeouts} answers came too late");
    }
    Ok(loaded)
}

impl Loaded {
    #[expect(clippy::cast_precision_loss, reason = "counts and microseconds of a round are far below 2^53")]
    pub(super) fn round(&self, cpu_seconds: Option<f64>) -> anyhow::Result<Round> {
        let seconds = self.duration_us as f64 / 1e6;
        ensure!(self.requests > 0, "no request was answered in {seconds:.3} s");
        Ok(Round {
            operations: self.requests,
            seconds,
            per_second: self.requests as f64 / seconds,
            p50_us: self.p50_us as f64,
            p99_us: self.p99_us as f64,
            conflicts: 0,
            gave_up: 0,
            cpu_seconds,
            oversold: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_spoils_the_result() {
        let said = |errors: &str| {
            format!(
                "Running 1s test\n{{\"requests\":10,\"duration_us\":2000000,\"p50_us\":90,\"p99_us\":300,{errors}}}\n"
            )
        };
        let loaded = parse(&said(r#""statuses":0,"sockets":0,"timeouts":0"#)).unwrap();
        let round = loaded.round(None).unwrap();
        assert!((round.per_second - 5.0).abs() < 1e-9 && (round.p99_us - 300.0).abs() < 1e-9, "{round:?}");
        for errors in [
            r#""statuses":1,"sockets":0,"timeouts":0"#,
            r#""statuses":0,"sockets":1,"timeouts":0"#,
            r#""statuses":0,"sockets":0,"timeouts":1"#,
        ] {
            assert!(parse(&said(errors)).is_err(), "{errors}");
        }
        assert!(parse("unable to connect to 127.0.0.1:1 Connection refused").is_err());
    }

    #[tokio::test]
    async fn another_program_is_not_taken_for_wrk() {
        assert!(Wrk::named("leastlock-no-such-program").await.unwrap().is_none());
        let error = Wrk::named("echo").await.unwrap_err();
        assert!(error.to_string().contains("is another one"), "{error:#}");
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(10)), Duration::from_secs(1));
        assert_eq!(whole_seconds(Duration::from_secs(2)), Duration::from_secs(2));
    }
}
