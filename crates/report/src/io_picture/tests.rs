//! Pictures of made-up disks.

use fsdyno_model::io_graph::IoClass;

use super::*;

fn picture(dark: bool) -> String {
    let graph = fixture::graph("compilebench on ext4", 3, 60);
    let (activity, phases) = (fixture::activity(60), fixture::phases(60));
    let input = PictureInput { graph: &graph, activity: Some(&activity), phases: &phases };
    svg(&[input], &PictureOptions { dark, ..PictureOptions::default() })
}

fn overlay() -> String {
    let graphs = [("ext4", 3, 60), ("xfs", 5, 48), ("btrfs", 9, 75)];
    let graphs = graphs.map(|(label, seed, seconds)| fixture::graph(label, seed, seconds));
    let inputs = graphs.each_ref().map(|graph| PictureInput { graph, activity: None, phases: &[] });
    svg(&inputs, &PictureOptions::default())
}

fn frame_options(count: u32) -> FrameOptions {
    FrameOptions { count, ..FrameOptions::default() }
}

#[test]
fn written_for_looking_at() {
    let Some(directory) = std::env::var_os("PICTURES") else { return };
    let directory = std::path::Path::new(&directory);
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.join(name), bytes).unwrap();
    for (name, text) in [
        ("light.png", picture(false)),
        ("dark.png", picture(true)),
        ("overlay.png", overlay()),
        ("ratios.png", ratios_svg(&ratio_data(), &small(false))),
        ("ratios-dark.png", ratios_svg(&ratio_data(), &small(true))),
    ] {
        write(&name.replace("png", "svg"), text.as_bytes());
        write(name, &png(&text));
    }
    let graph = fixture::graph("compilebench on ext4", 3, 60);
    let frame = frames(&graph, frame_options(100)).nth(62).unwrap();
    write("frame.png", &frame);
    let options = words::TextOptions { width: 100, color: false, unicode: true, charts: true };
    write("words.txt", words::summary(&graph, &options).as_bytes());
}

fn small(dark: bool) -> PictureOptions {
    PictureOptions { width: 1000, height: 100, dark }
}

fn ratio_data() -> fsdyno_model::report_data::ReportData {
    use fsdyno_model::report_data::{Comparison, PhaseRatio, Ratio, ReportData};
    let ratio =
        |ratio: f64| Some(Ratio { ratio, low: Some(ratio * 0.94), high: Some(ratio * 1.05) });
    let phase = |phase: &str, value: Option<Ratio>| PhaseRatio {
        phase: phase.to_owned(),
        metric: "throughput_mib_per_s".to_owned(),
        ratio: value,
    };
    let comparison = |target: &str, by: f64| Comparison {
        workload: "compilebench".to_owned(),
        baseline: "ext4".to_owned(),
        target: target.to_owned(),
        overall: ratio(by),
        phases: vec![
            phase("initial-create", ratio(by * 0.7)),
            phase("read-compiled", ratio(by * 1.3)),
            phase("delete", None),
        ],
    };
    let comparisons = vec![comparison("xfs", 0.86), comparison("btrfs:compress=zstd", 1.42)];
    let result = crate::fixture::three_targets();
    ReportData { result, comparisons, curves: Vec::new(), timelines: Vec::new() }
}

/// Pixels of a PNG: width, height, red, green and blue of each.
fn decoded(bytes: &[u8]) -> (u32, u32, Vec<[u8; 3]>) {
    let decoder = ::png::Decoder::new(std::io::Cursor::new(bytes));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, ::png::ColorType::Rgb);
    let pixels = pixels[..info.buffer_size()].chunks_exact(3).map(|p| [p[0], p[1], p[2]]);
    (info.width, info.height, pixels.collect())
}

/// Whether some pixel has about this colour.
fn has_color(pixels: &[[u8; 3]], color: &str) -> bool {
    let wanted = theme::rgb(color);
    pixels.iter().any(|pixel| (0..3).all(|i| pixel[i].abs_diff(wanted[i]) < 24))
}

#[test]
fn a_picture_is_the_same_every_time_and_tells_everything() {
    let text = picture(false);
    assert_eq!(text, picture(false));
    assert!(raster::tree(&text).is_some());
    for words in [
        ">compilebench on ext4 (loop0, 8.59 GB)<",
        ">Offset on the device (GB)<",
        ">Throughput (MB/s)<",
        ">IOPS (per second)<",
        ">Seeks (per second)<",
        ">Latency, issue to completion<",
        ">Requests at the device<",
        ">Processors busy, of 2<",
        ">Time (s)<",
        ">initial-create<",
        ">patch<",
        ">write journal<",
        ">99th percentile<",
        ">writeback<",
        ">at 36 s kworker/flush wrote 38 MB of metadata in 1,912 seeks<",
    ] {
        assert!(text.contains(words), "{words}");
    }
    assert!(!text.contains(">idle<") && !text.contains("NaN"), "{text}");
}

#[test]
fn a_png_shows_every_class_of_requests_on_light_and_dark_paper() {
    for dark in [false, true] {
        let (width, height, pixels) = decoded(&png(&picture(dark)));
        assert_eq!((width, height), (2400, 2000));
        let theme = Theme::of(dark);
        // The upper half, below head and legends: the map.
        let map = &pixels[2400 * 260..2400 * 700];
        for class in [IoClass::ReadData, IoClass::WriteData] {
            assert!(has_color(map, theme.class(class)), "{class:?} {dark}");
        }
        let paper = theme::rgb(theme.plot);
        let marks = map.iter().filter(|pixel| **pixel != paper).count();
        assert!(marks > map.len() / 50 && marks < map.len() * 19 / 20, "{marks} {dark}");
    }
}

#[test]
fn letters_are_drawn_with_the_font_of_the_program() {
    let svg = |text: &str| {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\" height=\"30\">\
             <rect width=\"300\" height=\"30\" fill=\"#fff\"/>\
             <text x=\"5\" y=\"20\" font-size=\"16\" font-family=\"DejaVu Sans\">{text}</text></svg>"
        )
    };
    let dark = |text: &str| {
        let (_, _, pixels) = decoded(&png(&svg(text)));
        pixels.iter().filter(|pixel| pixel[0] < 100).count()
    };
    assert_eq!(dark(""), 0);
    for character in "AZaz09%/(µ·×–…−".chars() {
        assert!(dark(&character.to_string()) > 4, "{character}");
    }
}

#[test]
fn widths_of_letters_are_those_of_the_font() {
    for text in ["compilebench", "Throughput (MB/s)", "1,912 seeks"] {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"90\">\
             <text x=\"0\" y=\"60\" font-size=\"40\" font-family=\"DejaVu Sans\">{text}</text></svg>"
        );
        let tree = raster::tree(&svg).unwrap();
        let drawn = f64::from(tree.root().abs_bounding_box().width());
        let counted = canvas::text_width(text, 40.0);
        assert!((drawn - counted).abs() < 0.04 * counted, "{text}: {drawn} {counted}");
    }
}

#[test]
fn several_traces_have_a_color_each() {
    let text = overlay();
    for (index, label) in ["ext4", "xfs", "btrfs"].into_iter().enumerate() {
        assert!(text.contains(&format!(">{label}<")));
        let color = Theme::of(false).nth(index);
        assert!(text.matches(&format!("stroke=\"{color}\"")).count() >= 6, "{label}");
    }
    let (_, _, pixels) = decoded(&png(&text));
    for index in 0..3 {
        assert!(has_color(&pixels[2400 * 260..2400 * 700], Theme::of(false).nth(index)));
    }
}

#[test]
fn odd_graphs_are_drawn_too() {
    let empty = IoGraph::default();
    let mut odd = fixture::graph("a <b> & \"c\" \u{1}", 1, 5);
    odd.lost_events = 12;
    odd.heat.row_sectors = u64::MAX;
    odd.series[0].values = vec![Some(f64::NAN), Some(f64::INFINITY), None];
    odd.bin_ns = 0;
    let options = PictureOptions { width: 0, height: 0, dark: false };
    let input = |graph| PictureInput { graph, activity: None, phases: &[] };
    for inputs in [vec![], vec![input(&empty)], vec![input(&odd)], vec![input(&empty), input(&odd)]]
    {
        let text = svg(&inputs, &options);
        assert!(raster::tree(&text).is_some(), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    assert!(svg(&[input(&odd)], &options).contains(">12 events are missing"));
    assert_eq!(frames(&empty, frame_options(2)).count(), 2);
    assert!(png("no picture").is_empty());
}

#[test]
fn frames_differ_and_light_fades() {
    let graph = fixture::graph("compilebench on ext4", 3, 60);
    let frames: Vec<Vec<u8>> = frames(&graph, frame_options(40)).collect();
    assert_eq!(frames.len(), 40);
    assert!(frames.windows(2).all(|pair| pair[0] != pair[1]));
    let theme = Theme::of(true);
    // The field of blocks alone.
    let lit = |frame: usize, class| {
        let (width, height, pixels) = decoded(&frames[frame]);
        assert_eq!((width, height), (960, 640));
        has_color(&pixels[960 * 80..960 * 500], theme.class(class))
    };
    assert!(lit(10, IoClass::WriteData) && !lit(10, IoClass::ReadData));
    assert!(lit(35, IoClass::ReadData) && !lit(35, IoClass::WriteData));
}

#[test]
fn a_picture_says_what_was_run() {
    let graph = fixture::graph("ext4", 3, 60);
    let activity = fixture::activity(60);
    let input = PictureInput { graph: &graph, activity: Some(&activity), phases: &[] };
    let text = svg_titled(&[input], Some("compilebench on ext4"), &small(false));
    assert!(text.contains("<title>I/O graph of compilebench on ext4. "), "{text}");
    assert!(text.contains(">compilebench on ext4"), "{text}");
    let several = svg_titled(&[input, input], Some("compilebench"), &small(false));
    assert!(several.contains(">compilebench: 2 traces on one axis<"), "{several}");
}

#[test]
fn comparisons_show_ratios_with_intervals() {
    use fsdyno_model::report_data::Ratio;
    let text = ratios_svg(&ratio_data(), &small(false));
    assert_eq!(text, ratios_svg(&ratio_data(), &small(false)));
    assert!(raster::tree(&text).is_some());
    for words in [">xfs<", ">all phases<", ">0.860 × [0.808 – 0.903]<", ">read-compiled<", ">–<"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("beyond the chart"));
    let mut wide = ratio_data();
    let phase = &mut wide.comparisons[0].phases[0];
    phase.ratio = phase.ratio.map(|ratio| Ratio { low: Some(0.0), high: Some(1e6), ..ratio });
    phase.phase = "fsck".to_owned();
    let wide = ratios_svg(&wide, &small(false));
    assert!(wide.contains("Arrows: go on beyond the chart. fsck is in no mean."), "{wide}");
    assert!(wide.matches('Z').count() >= text.matches('Z').count() + 2, "two heads of arrows");
    let mut nothing = ratio_data();
    nothing.comparisons.clear();
    assert!(ratios_svg(&nothing, &small(false)).contains(">Nothing to compare<"));
}

#[test]
fn words_fit_the_terminal() {
    let graph = fixture::graph("compilebench on ext4", 3, 60);
    for width in [40, 60, 80, 120] {
        for (unicode, charts) in [(true, true), (false, true), (true, false)] {
            let options = words::TextOptions { width, color: false, unicode, charts };
            let text = words::summary(&graph, &options);
            for line in text.lines() {
                assert!(crate::text::width(line) <= width, "{width}: {line}");
            }
            assert_eq!(text.contains('█'), unicode && charts);
            assert!(unicode || text.is_ascii(), "{text}");
            assert!(text.contains("kworker/flush") && text.contains("5,212 seeks"), "{text}");
        }
    }
}

#[test]
fn csv_has_a_row_for_each_value() {
    let graph = fixture::graph("a,b", 3, 60);
    let text = series::csv(&[&graph]).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let values: usize = graph.series.iter().map(|s| s.values.iter().flatten().count()).sum();
    assert_eq!(rows.len(), values);
    assert_eq!(
        rows[1].iter().take(4).collect::<Vec<_>>(),
        ["a,b", "0.150000000", "read_bytes_per_s", "B/s"]
    );
    let json: serde_json::Value = serde_json::from_str(&series::json(&[&graph]).unwrap()).unwrap();
    assert_eq!(json["schema_version"], 1);
    let graphs: Vec<IoGraph> = serde_json::from_value(json["graphs"].clone()).unwrap();
    assert_eq!(graphs, [graph]);
}
