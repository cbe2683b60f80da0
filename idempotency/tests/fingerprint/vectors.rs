//! The vectors of `vectors.json`, which were computed without this crate.

use leastlock_idempotency::Fingerprint;
use serde::Deserialize;

const VECTORS: &str = include_str!("vectors.json");

#[derive(Deserialize)]
struct Vector {
    name: String,
    method: String,
    path: String,
    query: String,
    body: String,
    /// `null` where the body counts as bytes.
    canonical: Option<String>,
    /// In hexadecimal.
    fingerprint: String,
}

fn vectors() -> Vec<Vector> {
    let vectors: Vec<Vector> = serde_json::from_str(VECTORS).unwrap();
    assert!(vectors.len() > 20);
    vectors
}

fn hex(fingerprint: &Fingerprint) -> String {
    fingerprint.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[test]
fn every_vector_has_its_fingerprint() {
    for vector in vectors() {
        let request = Fingerprint::request(&vector.method, &vector.path, &vector.query);
        assert_eq!(hex(&request.json(vector.body.as_bytes())), vector.fingerprint, "{}", vector.name);
    }
}

#[test]
fn a_canonical_body_is_its_own_canonical_form() {
    for vector in vectors() {
        let request = || Fingerprint::request(&vector.method, &vector.path, &vector.query);
        match &vector.canonical {
            Some(canonical) => assert_eq!(hex(&request().json(canonical.as_bytes())), vector.fingerprint),
            None => assert_eq!(hex(&request().bytes(vector.body.as_bytes())), vector.fingerprint, "{}", vector.name),
        }
    }
}

#[test]
fn no_two_vectors_share_a_fingerprint() {
    let mut fingerprints: Vec<_> = vectors().into_iter().map(|vector| vector.fingerprint).collect();
    let all = fingerprints.len();
    fingerprints.sort();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), all);
}
