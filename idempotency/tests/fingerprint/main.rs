//! Fingerprints: the published vectors, and that no order of keys counts while any other edit does.

mod edits;
mod json;
mod vectors;
