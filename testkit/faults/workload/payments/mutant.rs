//! The payment service's mistake, made on purpose.

use crate::ground::Server;
use crate::inject::Blow;
use crate::mutant::Mutant;

pub(super) const NEW_KEY: &str = "new provider key per retry";

pub(crate) const MUTANTS: &[Mutant] = &[Mutant {
    name: NEW_KEY,
    workload: "payments",
    blows: &[(Some("client"), Blow::Mute(Server::Provider), 1_000..2_000)],
}];
