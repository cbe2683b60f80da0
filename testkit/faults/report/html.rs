//! The page.

use std::fmt::Write;

use super::recovery::Quantiles;
use super::{Report, Told};

const HEAD: &str = include_str!("head.html");

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = HEAD.to_owned();
    summary(&mut page, report);
    scenarios(&mut page, &report.scenarios);
    mutants(&mut page, &report.mutants);
    recoveries(&mut page, report);
    for told in &report.scenarios {
        one(&mut page, told);
    }
    page.push_str("</body></html>\n");
    page
}

fn summary(page: &mut String, report: &Report) {
    let breaches: usize = report.scenarios.iter().map(|told| told.breaches.len()).sum();
    let caught = report.mutants.iter().filter(|told| told.caught_after_s.is_some()).count();
    let servers = if report.own_servers { "servers of its own, restarted meanwhile" } else { "servers that stay up" };
    put(
        page,
        format_args!(
            "<p>Seed {}, {:.1} minutes of faults a scenario, on {servers}. <b>{breaches} breaches</b> in {} scenarios; \
             <b>{caught} of {} mutants caught</b>.</p>\n",
            report.seed,
            report.minutes,
            report.scenarios.len(),
            report.mutants.len(),
        ),
    );
}

fn scenarios(page: &mut String, scenarios: &[Told]) {
    page.push_str("<h2>Scenarios</h2>\n<table><tr>");
    for title in
        ["", "injections", "calls", "done", "refused", "unknown", "cycles", "rate below (95 %)", "settled after"]
    {
        put(page, format_args!("<th>{title}</th>"));
    }
    page.push_str("<th>verdict</th></tr>\n");
    for told in scenarios {
        put(page, format_args!("<tr><td>{}</td>", escaped(&told.name)));
        let numbers = [told.injections as u64, told.calls, told.done, told.refused, told.unknown, told.cycles];
        for number in numbers {
            put(page, format_args!("<td>{number}</td>"));
        }
        let rate = told.rate_below.filter(|_| told.breaches.is_empty());
        put(page, format_args!("<td>{}</td>", rate.map_or("–".to_owned(), |rate| format!("{rate:.1e}"))));
        put(page, format_args!("<td>{} s</td>", told.settled_after_s.map_or("–".to_owned(), |s| format!("{s:.1}"))));
        let verdict = if told.breaches.is_empty() { "no breach" } else { "<b class=bad>BREACH</b>" };
        put(page, format_args!("<td>{verdict}</td></tr>\n"));
    }
    page.push_str("</table>\n<p>Unknown calls had no definite answer; that is no failure, and each is checked for what it may have done. ");
    page.push_str("Without a failure in n cycles, the rate of failures is below 3/n at 95 % confidence.</p>\n");
}

fn mutants(page: &mut String, mutants: &[Told]) {
    page.push_str("<h2>Mutants</h2>\n<table><tr><th></th><th>injections</th><th>caught after</th></tr>\n");
    for told in mutants {
        let caught = told.caught_after_s.map_or("<b class=bad>NOT CAUGHT</b>".to_owned(), |s| format!("{s:.1} s"));
        let breach = told.breaches.first().and_then(|breach| breach.lines().next()).unwrap_or_default();
        put(
            page,
            format_args!(
                "<tr><td title=\"{}\">{}</td><td>{}</td><td>{caught}</td></tr>\n",
                escaped(breach),
                escaped(&told.name),
                told.injections
            ),
        );
    }
    page.push_str(
        "</table>\n<p>Since the first injection, or since the beginning where nothing needs to be injected.</p>\n",
    );
}

fn recoveries(page: &mut String, report: &Report) {
    page.push_str("<h2>Recovery</h2>\n<table><tr><th></th><th>injections</th>");
    page.push_str(
        "<th colspan=3>longest pause of all, s</th><th colspan=3>until the target succeeds again, s</th></tr>\n",
    );
    page.push_str(
        "<tr><th></th><th></th><th>median</th><th>p90</th><th>max</th><th>median</th><th>p90</th><th>max</th></tr>\n",
    );
    for recovery in &report.recoveries {
        put(page, format_args!("<tr><td>{}</td><td>{}</td>", escaped(&recovery.kind), recovery.injections));
        quantiles(page, Some(recovery.pause_s));
        quantiles(page, recovery.own_s);
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n<img src=\"recoveries.svg\" alt=\"pauses by kind of injection\">\n");
}

fn quantiles(page: &mut String, quantiles: Option<Quantiles>) {
    let times = quantiles.map(|quantiles| [quantiles.median, quantiles.p90, quantiles.max]);
    for time in times.map_or([None; 3], |times| times.map(Some)) {
        put(page, format_args!("<td>{}</td>", time.map_or("–".to_owned(), |time| format!("{time:.2}"))));
    }
}

/// One scenario: volumes, what is wrong, and its course.
fn one(page: &mut String, told: &Told) {
    put(page, format_args!("<h3>{}</h3>\n<p>", escaped(&told.name)));
    let volumes: Vec<String> = told.volumes.iter().map(|(what, count)| format!("{count} {what}")).collect();
    put(page, format_args!("{}. <code>{}</code></p>\n", escaped(&volumes.join(", ")), escaped(&told.again)));
    for breach in &told.breaches {
        put(page, format_args!("<pre class=bad>{}</pre>\n", escaped(breach)));
    }
    if let Some(history) = &told.history {
        put(page, format_args!("<p>The history is in <a href=\"{history}\">{history}</a>.</p>\n"));
    }
    if let Some(plot) = &told.plot {
        put(page, format_args!("<img src=\"{plot}\" alt=\"successes a second, and injections\">\n"));
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes all");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_on_the_page_and_is_no_markup() {
        let told = Told {
            name: "writer/redis".to_owned(),
            injections: 3,
            calls: 10,
            done: 7,
            refused: 1,
            unknown: 2,
            volumes: vec![("batches", 7)],
            cycles: 4,
            rate_below: Some(0.75),
            settled_after_s: Some(1.0),
            caught_after_s: None,
            breaches: vec!["token 1 < token 2".to_owned()],
            again: "faults --seed 7".to_owned(),
            plot: None,
            history: Some("breach-0".to_owned()),
        };
        let mutant = Told { name: "a mutant".to_owned(), ..told.clone() };
        let report = Report {
            seed: 7,
            minutes: 1.0,
            own_servers: false,
            scenarios: vec![told],
            mutants: vec![mutant],
            recoveries: vec![],
        };
        let page = page(&report);
        for part in ["1 breaches", "0 of 1 mutants", "token 1 &lt; token 2", "breach-0", "NOT CAUGHT", "7 batches"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("7.5e-1"), "a bound means nothing after a failure");
    }
}
