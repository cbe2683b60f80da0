//! Who is inside.

use std::sync::Mutex;

use leastlock_lease::{CorrectnessLease, Permit};

/// Lets in one after the other, and remembers all.
#[derive(Debug, Default)]
pub(super) struct Door(Mutex<Vec<Permit>>);

impl Door {
    /// Whoever was granted the lock comes in: nobody else may believe now that he holds it, and its token is above all before.
    pub(super) fn enter(&self, lease: &CorrectnessLease) {
        let Ok(permit) = lease.permit() else { panic!("it has only just been granted: {:?}", lease.status()) };
        let mut before = self.0.lock().unwrap();
        for other in before.iter() {
            assert!(other.token() < permit.token(), "{} after {}", permit.token(), other.token());
            assert!(other.remaining().is_err(), "{} holds it beside {}", other.token(), permit.token());
        }
        before.push(permit);
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
