//! The report in a real browser: a page of a real run is opened from the disk in Chromium, read,
//! switched, zoomed and played. Any message on the console and any request to the network fails it.
//! Screenshots are left in `target/screenshots`.

mod opened;
mod real_run;

use opened::{Opened, Scheme};

/// What the page must show, from the result document of the run.
const TARGETS: [&str; 2] = ["ext4", "xfs"];

#[test]
fn a_report_of_a_real_run_works_in_a_browser() {
    let Some(browser) = opened::chromium() else {
        println!("skipped: chromium is not installed");
        return;
    };
    let Some(run) = real_run::make(&TARGETS) else { return };
    let page = Opened::new(&browser, &run.page, 1280, Scheme::Light);
    the_words_are_those_of_the_result(&page, &run.result);
    every_canvas_is_painted(&page);
    a_switch_changes_the_picture(&page);
    dragging_zooms(&page);
    a_phase_can_be_chosen(&page);
    every_tab_opens(&page);
    the_movie_plays(&page);
    page.assert_quiet();

    for (name, width, scheme) in [
        ("desktop-light", 1280, Scheme::Light),
        ("desktop-dark", 1280, Scheme::Dark),
        ("phone-light", 390, Scheme::Light),
        ("phone-dark", 390, Scheme::Dark),
    ] {
        let page = Opened::new(&browser, &run.page, width, scheme);
        let overflow = page.number("document.documentElement.scrollWidth - innerWidth");
        assert!(overflow <= 0.0, "{name} is {overflow} pixels wider than the screen");
        every_canvas_is_painted(&page);
        page.screenshot(name);
        page.assert_quiet();
    }
}

fn the_words_are_those_of_the_result(page: &Opened, result: &serde_json::Value) {
    let shown = page.text("document.getElementById('verdict').innerText");
    let verdict = result["verdicts"][0]["text"].as_str().unwrap();
    assert!(shown.contains(verdict), "{shown}\nlacks\n{verdict}");
    let rows = "document.querySelectorAll('table.values')[0].querySelectorAll('tbody tr').length";
    let primary = result["summary"].as_array().unwrap().iter();
    let phases: std::collections::BTreeSet<&str> = primary
        .filter(|row| row["primary"] == true)
        .map(|row| row["phase"].as_str().unwrap())
        .collect();
    let explained = page.number(
        "[...document.querySelectorAll('table.values')].slice(1).filter(it => \
         it.querySelector('caption').innerText.includes('explains')).length",
    );
    assert_eq!(page.number(rows) + explained, phases.len() as f64);
    // Head, unit, and a cell for each target, in every row of every table of values.
    let cells =
        "[...document.querySelectorAll('table.values tr')].every(row => row.cells.length === 4)";
    assert!(page.truth(cells));
    let trials = result["trials"].as_array().unwrap().len();
    let outcomes =
        "[...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr').length";
    assert_eq!(page.number(outcomes), trials as f64);
    assert!(page.truth("[...document.querySelectorAll('table')].every(it => it.caption && it.querySelector('th[scope=row]'))"));
    let mounted = page.text("document.getElementById('exact').textContent");
    for target in result["targets"].as_array().unwrap() {
        assert!(mounted.contains(target["mount_effective"].as_str().unwrap()), "{target}");
    }
}

/// Those that can be seen hold more than one colour.
fn every_canvas_is_painted(page: &Opened) {
    // Through a canvas of its own: reading those of the page would change how they are painted.
    let blank = page.text(
        "(() => { const copy = document.createElement('canvas'); \
         const ctx = copy.getContext('2d', { willReadFrequently: true }); \
         return [...document.querySelectorAll('canvas')].filter(it => it.clientWidth > 0).filter(it => { \
           [copy.width, copy.height] = [it.width, it.height]; ctx.drawImage(it, 0, 0); \
           const data = new Uint32Array(ctx.getImageData(0, 0, it.width, it.height).data.buffer); \
           return data.every(pixel => pixel === data[0]); \
         }).map(it => it.closest('[data-chart],.plot,.thumb,.movie-box')?.outerHTML.slice(0, 120)).join('\\n'); })()",
    );
    assert!(blank.is_empty(), "blank: {blank}");
    let count = page
        .number("[...document.querySelectorAll('canvas')].filter(it => it.clientWidth > 0).length");
    assert!(count > 10.0, "{count} canvases");
}

const HEAT: &str = "document.querySelector('.graph:not([hidden]) .panels canvas').toDataURL()";
const RANGE: &str = "page.graphs[0].range[1] - page.graphs[0].range[0]";

fn a_switch_changes_the_picture(page: &Opened) {
    let throughput =
        "document.querySelectorAll('.graph:not([hidden]) .panels canvas')[1].toDataURL()";
    let before = (page.text(HEAT), page.text(throughput));
    page.run("[...document.querySelectorAll('.graph:not([hidden]) .switch')].find(it => it.innerText.trim() === 'writes').click()");
    page.settle();
    assert_ne!(page.text(HEAT), before.0, "without writes the heat map is the same");
    assert_ne!(page.text(throughput), before.1, "without writes the throughput is the same");
    page.run("[...document.querySelectorAll('.graph:not([hidden]) .switch')].find(it => it.innerText.trim() === 'writes').click()");
    page.settle();
    assert_eq!(page.text(HEAT), before.0);
    page.run("document.querySelector('.graph:not([hidden]) .switches:last-child .switch').click()");
    page.settle();
    assert_ne!(page.text(HEAT), before.0, "without a process the heat map is the same");
    page.run("document.querySelector('.graph:not([hidden]) .switches:last-child .switch').click()");
}

fn dragging_zooms(page: &Opened) {
    let whole = page.number(RANGE);
    page.drag(".graph:not([hidden]) .panels .u-over", 0.3, 0.6);
    let zoomed = page.number(RANGE) / whole;
    assert!((zoomed - 0.3).abs() < 0.03, "zoomed to {zoomed} of the whole");
    let all_alike = "new Set(page.graphs[0].panels.map(it => it.chart.scales.x.max)).size";
    assert_eq!(page.number(all_alike), 1.0, "panels show different spans");
    page.run("document.querySelector('.graph:not([hidden]) .panels .u-over').dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))");
    page.settle();
    assert!((page.number(RANGE) - whole).abs() < whole * 1e-6, "a double click shows all");
}

fn a_phase_can_be_chosen(page: &Opened) {
    let whole = page.number(RANGE);
    page.run("(() => { const it = document.querySelector('.graph:not([hidden]) select'); it.selectedIndex = 1; it.dispatchEvent(new Event('change')); })()");
    page.settle();
    assert!(page.number(RANGE) < whole, "a phase is shorter than the trial");
    page.run("page.graphs[0].reset()");
}

fn every_tab_opens(page: &Opened) {
    for tab in (0..page.number("document.querySelectorAll('.thumb').length") as usize).rev() {
        page.run(&format!("document.querySelectorAll('.thumb')[{tab}].click()"));
        page.settle();
        every_canvas_is_painted(page);
    }
}

fn the_movie_plays(page: &Opened) {
    let frame = "document.querySelector('.graph:not([hidden]) canvas.movie').toDataURL()";
    let clock = "document.querySelector('.graph:not([hidden]) .movie-box output').innerText";
    let before = (page.text(frame), page.text(clock));
    page.run("document.querySelector('.graph:not([hidden]) .play').click()");
    page.wait_for(&format!("{clock} !== {:?}", before.1));
    page.run("document.querySelector('.graph:not([hidden]) .play').click()");
    assert_ne!(page.text(frame), before.0, "two frames are the same");
    page.run("(() => { const it = document.querySelector('.graph:not([hidden]) .movie-box input'); it.value = 500; it.dispatchEvent(new Event('input')); })()");
    page.wait_for("Math.abs(page.graphs[0].playhead / page.graphs[0].duration - 0.5) < 0.01");
}
