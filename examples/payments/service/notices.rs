//! Where the relay publishes: Kafka, a file, or memory.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use leastlock::outbox::{KafkaSink, LoggedEvent, MemorySink, SendError, Sink};
use rdkafka::ClientConfig;
use serde::{Deserialize, Serialize};

use crate::args::Serve;
use crate::ended::Ended;
use crate::service::shop::Notice;

/// A sink that is chosen when the service starts.
#[derive(Debug)]
pub(crate) enum Notices {
    Kafka(KafkaSink),
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
            return Ok(Self::Kafka(sink));
        }
        let Some(path) = &args.events else { return Ok(Self::Memory(MemorySink::default())) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| Ended::refused("cannot write the file of --events", &error))?;
        Ok(Self::File(Lines(Arc::new(Mutex::new(file)))))
    }
}

impl Sink for Notices {
    async fn publish(&self, events: &[LoggedEvent]) -> Vec<Result<(), SendError>> {
        match self {
            Self::Kafka(kafka) => kafka.publish(events).await,
            Self::Memory(memory) => memory.publish(events).await,
            Self::File(lines) => {
                let (lines, owned) = (lines.clone(), events.to_vec());
                let written = tokio::task::spawn_blocking(move || lines.write(&owned)).await;
                let unknown = || SendError::Unknown { reason: "the file may have some of the lines".to_owned() };
                let written = written.map_err(|_| unknown()).and_then(|written| written.map_err(|_| unknown()));
                events.iter().map(|_| if written.is_ok() { Ok(()) } else { Err(unknown()) }).collect()
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
