//! The index of the gallery: every published comparison, with what its page says in a line.

use fsdyno_model::then_and_now::Pair;

use super::{Entry, Known, page_name, place, trials, worth};
use crate::markdown::escape;

const LEAD: &str = "\
Comparisons of filesystems that others published, run again by fsdyno: what was printed then beside what
was measured now, in the same order, with the ratio of every pair of filesystems then and now. The plans
and every published figure are in [the list of plans](../catalog/plans.md); how figures are made is in
[METHODOLOGY](../METHODOLOGY.md).
";

const AGAIN: &str = "\
## Making it again

Pages and pictures are made of the documents in [results](results/): summaries and the figures of each
trial, without histograms and traces, as `fsdyno diff` reads them too.

```sh
fsdyno gallery                                  # pages and pictures from docs/gallery/results
fsdyno gallery --check                          # are they fresh? exit code 1 where not
fsdyno run --published NAME --scale day         # run one again, then
fsdyno gallery latest                           # store it in the place of the one that is here
fsdyno diff docs/gallery/results/NAME.json latest
```
";

/// An entry with the file of its first picture.
type Told<'a> = (&'a Entry<'a>, Option<String>);

/// The page; `entries` with the first picture of each.
pub fn render(known: &[Known<'_>], entries: &[Told<'_>]) -> String {
    let mut page = format!("# Gallery\n\n{LEAD}\n");
    let mut scales = Vec::new();
    for (entry, _) in entries {
        if !scales.contains(&entry.then_and_now.scale) {
            scales.push(entry.then_and_now.scale);
        }
    }
    page.extend(scales.into_iter().map(|scale| format!("> **{}**\n\n", worth(scale))));
    page.push_str(
        "| comparison | then | now | scale | trials | pairs in the order of then / in the other / open | Kendall's τ |\n\
         |---|---|---|---|--:|---|--:|\n",
    );
    for plan in known {
        let own = of_plan(entries, plan);
        page.extend(own.iter().map(|(entry, _)| row(entry)));
        if own.is_empty() {
            page.push_str(&format!("| {} | | not run yet | | | | |\n", escape(plan.title)));
        }
    }
    page.push_str(
        "\nA pair is two filesystems in one row of a published table. It is open where it is not told apart now, or was not then.\n",
    );
    for (entry, picture) in known.iter().flat_map(|plan| of_plan(entries, plan)) {
        if let Some(picture) = picture {
            let (title, page_name) = (escape(title(entry)), page_name(&entry.key));
            page.push_str(&format!(
                "\n## [{title}]({page_name})\n\n[![{title}]({picture})]({page_name})\n"
            ));
        }
    }
    page.push_str(&format!("\n{AGAIN}"));
    page
}

fn of_plan<'a, 'b>(entries: &'a [Told<'b>], plan: &Known<'_>) -> Vec<&'a Told<'b>> {
    entries.iter().filter(|(entry, _)| entry.then_and_now.name == plan.name).collect()
}

fn title<'a>(entry: &'a Entry<'_>) -> &'a str {
    entry.result.run.title.as_deref().unwrap_or(&entry.key)
}

fn row(entry: &Entry<'_>) -> String {
    let it = entry.then_and_now;
    let count = |order: Option<bool>| {
        it.pairs.iter().map(Pair::agrees).filter(|agrees| *agrees == order).count()
    };
    let pairs = match it.pairs.len() {
        0 => "no figures then".to_owned(),
        _ => format!("{} / {} / {}", count(Some(true)), count(Some(false)), count(None)),
    };
    let tau = it.tau.map_or_else(|| "–".to_owned(), |tau| format!("{tau:.2}"));
    format!(
        "| [{}]({}) | {}, Linux {} | {} | {} | {} | {pairs} | {tau} |\n",
        escape(title(entry)),
        page_name(&entry.key),
        it.year,
        escape(&it.kernel),
        escape(&place(entry.result)),
        it.scale,
        trials(entry.result)
    )
}
