//! Named points between two awaits, at which the tests kill a process.
//!
//! Compiled only with the hidden feature `failpoints`; without it a point is nothing at all.

/// With the feature, a process that was started with `LEASTLOCK_FAILPOINT` set to the point's name, or to `name:2` for the second
/// time that it comes there, says `at <name>` on its standard output and goes no further: whoever started it kills it there.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        crate::phased::failpoint::reached($name).await;
    };
}
pub(crate) use failpoint;

#[cfg(feature = "failpoints")]
pub(crate) async fn reached(name: &'static str) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};

    static TIMES: AtomicU32 = AtomicU32::new(0);

    let Ok(chosen) = std::env::var("LEASTLOCK_FAILPOINT") else { return };
    let (chosen, time) = chosen.split_once(':').unwrap_or((&chosen, "1"));
    if chosen == name && (TIMES.fetch_add(1, Ordering::SeqCst) + 1).to_string() == time {
        // A listener that is gone has nothing to kill.
        let _ = writeln!(std::io::stdout().lock(), "at {name}");
        let _ = std::io::stdout().flush();
        std::future::pending::<()>().await;
    }
}
