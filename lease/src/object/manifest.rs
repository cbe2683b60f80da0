//! The manifest as it was found, and what errors of an object store mean.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, UpdateVersion};

use crate::error::Error;
use crate::record::Record;

/// A manifest, and the version on whose being there its replacement depends.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) record: Record,
    pub(super) version: UpdateVersion,
}

impl Found {
    /// Reads the manifest; `None` if there is none yet.
    pub(super) async fn read(store: &Arc<dyn ObjectStore>, path: &Path, resource: &str) -> Result<Option<Self>, Error> {
        const READ: &str = "read the manifest";
        let got = match store.get(path).await {
            Ok(got) => got,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed_to(READ)(error)),
        };
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let text = got.bytes().await.map_err(failed_to(READ))?;
        match std::str::from_utf8(&text).ok().and_then(Record::parse) {
            Some(record) => Ok(Some(Self { record, version })),
            None => Err(Error::Record { resource: resource.into() }),
        }
    }
}

/// Whether another manifest is there by now.
pub(super) fn is_conflict(error: &StoreError) -> bool {
    matches!(error, StoreError::Precondition { .. } | StoreError::AlreadyExists { .. } | StoreError::NotFound { .. })
}

/// Makes an [`Error::ObjectStore`] of what the store said.
pub(super) fn failed_to(operation: &'static str) -> impl Fn(StoreError) -> Error {
    move |source| {
        let retryable = matches!(source, StoreError::Generic { .. });
        Error::ObjectStore { operation, retryable, source: Box::new(source) }
    }
}
