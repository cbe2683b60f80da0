//! Where the relay publishes: Kafka, a file, or memory.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use leastlock::outbox::{Batch, KafkaSink, LoggedEvent, MemorySink, Refusal, Sink};
use rdkafka::ClientConfig;
use serde::{Deserialize, Serialize};

use crate::args::Serve;
use crate::ended::Ended;
use crate::service::shop::Notice;

/// A sink that is chosen when the service starts.
#[derive(Debug)]
pub(crate) enum Notices {
    Kafka(Box<KafkaSink>),
    File(Lines),
    Memory(MemorySink),
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The same on every repeat: the relay publishes at least once.
    pub(crate) event_id: String,
    pub(crate) notice: Notice,
}

/// A file that gets a line for each event.
#[derive(Debug, Clone)]
pub(crate) struct Lines(Arc<Mutex<File>>);

impl Notices {
    pub(crate) fn open(args: &Serve) -> Result<Self, Ended> {
        if let Some(brokers) = &args.brokers {
            let mut producer = ClientConfig::new();
            producer.set("bootstrap.servers", brokers);
            let sink = KafkaSink::new(producer).map_err(|error| Ended::refused("the relay's sink", &error))?;
            return Ok(Self::Kafka(Box::new(sink)));
        }
        let Some(path) = &args.events else { return Ok(Self::Memory(MemorySink::default())) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| Ended::refused("cannot write the file of --events", &error))?;
        Ok(Self::File(Lines(Arc::new(Mutex::new(file)))))
    }
}

impl Sink for Notices {
    async fn check(&self, events: &[LoggedEvent]) -> Vec<Refusal> {
        match self {
            Self::Kafka(kafka) => kafka.check(events).await,
            Self::Memory(memory) => memory.check(events).await,
            Self::File(_) => Vec::new(),
        }
    }

    async fn send(&self, batch: Batch) {
        match self {
            Self::Kafka(kafka) => kafka.send(batch).await,
            Self::Memory(memory) => memory.send(batch).await,
            Self::File(lines) => {
                let (lines, events) = (lines.clone(), batch.events().to_vec());
                match tokio::task::spawn_blocking(move || lines.write(&events)).await {
                    Ok(Ok(())) => batch.published(),
                    _ => batch.unknown("the file may have some of the lines"),
                }
            }
        }
    }

    fn abandon(&self) {
        match self {
            Self::Kafka(kafka) => kafka.abandon(),
            Self::Memory(memory) => memory.abandon(),
            // A line that is being written may still land: a repeat, by its event id.
            Self::File(_) => {}
        }
    }
}

impl Lines {
    /// All of them, in order and durable, or an error.
    fn write(&self, events: &[LoggedEvent]) -> std::io::Result<()> {
        let mut text = Vec::new();
        for event in events {
            let notice = serde_json::from_slice(event.value.as_deref().unwrap_or_default())?;
            let line = Line { event_id: event.event_id.to_string(), notice };
            // A line that a kill has cut off ends here.
            text.push(b'\n');
            serde_json::to_writer(&mut text, &line)?;
        }
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text)?;
        file.sync_data()
    }
}
