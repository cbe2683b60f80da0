//! The ratios that the project aims at.

use super::Scene;
use super::contender::Contender;
use crate::contest::{Comparison, Entry, Round};
use crate::report::Aim;
use crate::statistics::Spread;

/// The number of clients at which combining is judged.
const MANY: u32 = 64;

/// Those that the run has measured both sides of.
pub(super) fn of(comparisons: &[Comparison]) -> Vec<Aim> {
    let table = Table(comparisons);
    let mut aims = Vec::new();
    let pairs = [(Contender::Guarded, Contender::Update), (Contender::Versioned, Contender::VersionedByHand)];
    for (product, base) in pairs {
        aims.extend(table.everywhere(product, base));
    }
    let pairs = [(Contender::Combiner, Contender::Update), (Contender::CombinerOrders, Contender::Order)];
    for (product, base) in pairs {
        for scene in [Scene::HotRow, Scene::ColdRows] {
            aims.extend(table.many_over_best(scene, product, base));
        }
    }
    for (product, base) in pairs {
        for scene in [Scene::HotRow, Scene::ColdRows] {
            aims.extend(table.one_over_one(scene, product, base));
        }
    }
    for scene in [Scene::HotRow, Scene::ColdRows] {
        aims.extend(table.latency(scene, Contender::Combiner, Contender::Update));
    }
    aims
}

/// What was measured.
struct Table<'a>(&'a [Comparison]);

impl<'a> Table<'a> {
    /// Throughput of the one over that of the other, over all rounds of all scenes and numbers of clients that have both.
    fn everywhere(&self, product: Contender, base: Contender) -> Option<Aim> {
        let both = |one: &'a Comparison| Some((entry(one, product)?, entry(one, base)?));
        let mut ratios = Vec::new();
        for (of, by) in self.0.iter().filter_map(both) {
            ratios.extend(of.values(per_second).iter().zip(by.values(per_second)).map(|(of, by)| of / by));
        }
        let what = format!("{}: {} pairs of rounds in all", over(product, base), ratios.len());
        Some(Aim { what, value: Spread::of(ratios)? })
    }

    /// The one with many clients, over the other with as many as are best for it.
    fn many_over_best(&self, scene: Scene, product: Contender, base: Contender) -> Option<Aim> {
        let product_entry = entry(self.find(scene, MANY)?, product)?;
        let bases = self.0.iter().filter(|one| one.measure == scene.measure());
        let bases = bases.filter_map(|one| Some((one.clients, entry(one, base)?)));
        let median = |entry: &Entry| Spread::of(entry.values(per_second)).map_or(0.0, |spread| spread.median);
        let (best, base_entry) = bases.max_by(|(_, one), (_, other)| median(one).total_cmp(&median(other)))?;
        let what = format!(
            "{}, {}: {MANY} clients over the base's best number of them, {best}",
            scene.measure(),
            over(product, base)
        );
        ratio(what, product_entry, base_entry, per_second)
    }

    fn one_over_one(&self, scene: Scene, product: Contender, base: Contender) -> Option<Aim> {
        let one = self.find(scene, 1)?;
        let what = format!("{}, {}: one client over one client", scene.measure(), over(product, base));
        ratio(what, entry(one, product)?, entry(one, base)?, per_second)
    }

    fn latency(&self, scene: Scene, product: Contender, base: Contender) -> Option<Aim> {
        let many = self.find(scene, MANY)?;
        let what = format!("{}, {}: p99 with {MANY} clients, less is better", scene.measure(), over(product, base));
        ratio(what, entry(many, product)?, entry(many, base)?, |round| round.p99_us)
    }

    fn find(&self, scene: Scene, clients: u32) -> Option<&'a Comparison> {
        self.0.iter().find(|one| one.measure == scene.measure() && one.clients == clients)
    }
}

/// None of these contenders has another name on some engine.
fn entry(comparison: &Comparison, contender: Contender) -> Option<&Entry> {
    comparison.entries.iter().find(|entry| entry.name == contender.standard_name())
}

fn over(product: Contender, base: Contender) -> String {
    format!("{} / {}", product.standard_name(), base.standard_name())
}

fn per_second(round: &Round) -> f64 {
    round.per_second
}

fn ratio(what: String, product: &Entry, base: &Entry, value: impl Fn(&Round) -> f64) -> Option<Aim> {
    Some(Aim { what, value: Spread::of_ratios(&product.values(&value), &base.values(&value))? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::entry as measured;

    fn comparison(scene: Scene, clients: u32, entries: [(Contender, [f64; 3]); 2]) -> Comparison {
        let entries = entries.map(|(contender, rounds)| measured(contender.standard_name(), rounds));
        Comparison { measure: scene.measure(), clients, connections: clients, entries: entries.into() }
    }

    fn medians(comparisons: &[Comparison]) -> Vec<(String, f64)> {
        of(comparisons).into_iter().map(|aim| (aim.what, aim.value.median)).collect()
    }

    #[test]
    fn many_clients_are_compared_with_the_best_number_of_the_other() {
        let pair = |product, base| [(Contender::Combiner, product), (Contender::Update, base)];
        let comparisons = [
            comparison(Scene::HotRow, 1, pair([30.0, 33.0, 36.0], [30.0, 30.0, 30.0])),
            comparison(Scene::HotRow, 16, pair([300.0, 330.0, 360.0], [40.0, 20.0, 20.0])),
            comparison(Scene::HotRow, 64, pair([600.0, 660.0, 720.0], [10.0, 10.0, 10.0])),
        ];
        let found = medians(&comparisons);
        let texts: Vec<_> = found.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(
            texts,
            [
                "1 hot row, combiner / conditional UPDATE: 64 clients over the base's best number of them, 1",
                "1 hot row, combiner / conditional UPDATE: one client over one client",
                "1 hot row, combiner / conditional UPDATE: p99 with 64 clients, less is better",
            ]
        );
        assert!((found[0].1 - 22.0).abs() < 1e-9 && (found[1].1 - 1.1).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn every_pair_of_rounds_counts_where_the_library_stands_beside_the_same_by_hand() {
        let pair = |product, base| [(Contender::Guarded, product), (Contender::Update, base)];
        let comparisons = [
            comparison(Scene::HotRow, 1, pair([90.0, 100.0, 110.0], [100.0, 100.0, 100.0])),
            comparison(Scene::ColdRows, 16, pair([980.0, 970.0, 960.0], [1000.0, 1000.0, 1000.0])),
        ];
        let found = medians(&comparisons);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "guarded / conditional UPDATE: 6 pairs of rounds in all");
        assert!((found[0].1 - 0.975).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        assert_eq!(medians(&[]), []);
    }
}
