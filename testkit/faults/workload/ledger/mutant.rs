//! The ways to seal a partition, and to keep what is finished, that are not enough.

use super::RECORDS;
use super::by_hand::{ENTERED, FOLDING, LOOKED};
use crate::inject::Blow;
use crate::mutant::Mutant;
use crate::part::Part;

pub(super) const ONE_STEP: &str = "seal in one step, past handlers that are open";
pub(super) const OUTSIDE: &str = "finished offsets compared outside the locked read";
pub(super) const MOMENTS: &str = "base offset and map of finished ones taken at two moments";
pub(super) const LOST: &str = "commit of a lost partition";

const ALL: [&str; 4] = [ONE_STEP, OUTSIDE, MOMENTS, LOST];

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant { name: ONE_STEP, workload: RECORDS, blows: &[(Some("worker"), Blow::StopAt(ENTERED), 1_500..2_500)] },
    Mutant { name: OUTSIDE, workload: RECORDS, blows: &[(Some("worker"), Blow::StopAt(LOOKED), 1_500..2_500)] },
    Mutant { name: MOMENTS, workload: RECORDS, blows: &[(Some("worker"), Blow::StopAt(LOOKED), 1_500..2_500)] },
    Mutant { name: LOST, workload: RECORDS, blows: &[(Some("worker"), Blow::StopAt(FOLDING), 2_500..4_000)] },
];

/// The mistake that the process makes.
pub(super) fn of(part: &Part) -> Option<&'static str> {
    ALL.into_iter().find(|mutant| part.is_mutant(mutant))
}
