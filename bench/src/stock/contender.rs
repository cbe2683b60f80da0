//! The ways to take a unit, and what each is divided by.

use clap::ValueEnum;
use leastlock_core::{Dialect, Engine};

use super::Scene;
use crate::contest::Entrant;
use crate::options::chosen;
use crate::statistics::Quotient;

/// A way to take a unit. Those that are compared with each other have their turns one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// Conditional UPDATE by hand.
    Update,
    /// The same with `guarded`.
    Guarded,
    /// Combined by a `StockCounter`.
    Combiner,
    /// SELECT … FOR UPDATE, UPDATE, commit, by hand.
    ForUpdate,
    /// Load, checked update, commit, with a derived row and `Retry`.
    Retry,
    /// Order id and conditional UPDATE in one transaction, by hand.
    Order,
    /// Combined by a `StockCounter`, with order ids.
    CombinerOrders,
    /// Checked update by hand, of rows that nobody else writes.
    VersionedByHand,
    /// The same with `#[derive(Versioned)]`.
    Versioned,
    /// SELECT, then UPDATE, without a lock: sells what is not there. Runs only if it is named.
    ReadThenWrite,
}

impl Contender {
    /// Those of the `named` that take part in a scene; if none is named, those that are right.
    pub(super) fn in_scene(scene: Scene, named: &[Self]) -> Vec<Self> {
        let all = chosen(named).into_iter();
        let takes_part =
            |contender: &Self| contender.is_at_home_in(scene) && (named.contains(contender) || !contender.is_wrong());
        all.filter(takes_part).collect()
    }

    pub(super) const fn entrant<DB: Dialect>(self) -> Entrant<Self> {
        let base = self.base();
        let quotient = match base {
            Some(base) => Some(Quotient { of: self.name::<DB>(), by: base.name::<DB>() }),
            None => None,
        };
        let (retries, is_wrong_on_purpose) = (matches!(self, Self::Retry), self.is_wrong());
        Entrant { name: self.name::<DB>(), contender: self, quotient, retries, is_wrong_on_purpose }
    }

    /// Its name in the report.
    pub(super) const fn name<DB: Dialect>(self) -> &'static str {
        match (self, DB::ENGINE) {
            (Self::ForUpdate, Engine::Sqlite) => "BEGIN IMMEDIATE, read, write",
            _ => self.standard_name(),
        }
    }

    /// Its name where the engine has no word of its own for it.
    pub(super) const fn standard_name(self) -> &'static str {
        match self {
            Self::Update => "conditional UPDATE",
            Self::Guarded => "guarded",
            Self::Combiner => "combiner",
            Self::ForUpdate => "SELECT FOR UPDATE, write",
            Self::Retry => "version and Retry",
            Self::Order => "INSERT id, UPDATE, commit",
            Self::CombinerOrders => "combiner with order ids",
            Self::VersionedByHand => "versioned by hand",
            Self::Versioned => "derive(Versioned)",
            Self::ReadThenWrite => "read, then write (wrong)",
        }
    }

    /// The way to do the same without what this one has.
    const fn base(self) -> Option<Self> {
        match self {
            Self::Update | Self::Order | Self::VersionedByHand => None,
            Self::Guarded | Self::Combiner | Self::ForUpdate | Self::Retry | Self::ReadThenWrite => Some(Self::Update),
            Self::CombinerOrders => Some(Self::Order),
            Self::Versioned => Some(Self::VersionedByHand),
        }
    }

    const fn is_at_home_in(self, scene: Scene) -> bool {
        matches!(self, Self::Versioned | Self::VersionedByHand) == matches!(scene, Scene::OwnRows)
    }

    const fn is_wrong(self) -> bool {
        matches!(self, Self::ReadThenWrite)
    }
}
