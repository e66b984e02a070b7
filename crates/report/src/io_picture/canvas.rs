//! SVG, written shape by shape, and the widths of letters in the font that pictures use.

use std::fmt::Write as _;

/// Fonts of all pictures; the first one comes with this program, for PNG.
const FONTS: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// Widths of the characters from the space on in DejaVu Sans, in thousandths of the size.
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// Pixels that `text` takes at `size`.
pub fn text_width(text: &str, size: f64) -> f64 {
    let thousandths: u32 = text
        .chars()
        .map(|c| {
            let index = (c as usize).checked_sub(0x20);
            let width = index.and_then(|index| WIDTHS.get(index));
            width.map_or(if c == '·' { 318 } else { 838 }, |width| u32::from(*width))
        })
        .sum();
    f64::from(thousandths) / 1000.0 * size
}

/// `text` in at most `room` pixels, cut at its end with `…`.
pub fn fitted(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let mut cut = text.to_owned();
    while cut.pop().is_some() {
        let shorter = format!("{}…", cut.trim_end());
        if text_width(&shorter, size) <= room {
            return shorter;
        }
    }
    String::new()
}

/// Which end of a text stands at its place.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub struct Ink<'a> {
    pub size: f64,
    pub color: &'a str,
    pub bold: bool,
    pub anchor: Anchor,
}

impl<'a> Ink<'a> {
    pub fn new(size: f64, color: &'a str) -> Ink<'a> {
        Ink { size, color, bold: false, anchor: Anchor::Start }
    }

    pub fn bold(self) -> Ink<'a> {
        Ink { bold: true, ..self }
    }

    pub fn middle(self) -> Ink<'a> {
        Ink { anchor: Anchor::Middle, ..self }
    }

    pub fn end(self) -> Ink<'a> {
        Ink { anchor: Anchor::End, ..self }
    }
}

/// A rectangle, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// A picture that grows.
#[derive(Debug, Default)]
pub struct Canvas {
    body: String,
    clips: u32,
}

impl Canvas {
    pub fn rect(&mut self, area: Area, fill: &str, opacity: f64) {
        let Area { left, top, width, height } = area;
        let opacity = opacity_of("fill-opacity", opacity);
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"{opacity}/>",
            n(left),
            n(top),
            n(width.max(0.0)),
            n(height.max(0.0)),
        ));
    }

    pub fn round_rect(&mut self, area: Area, fill: &str, radius: f64) {
        let Area { left, top, width, height } = area;
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{fill}\"/>",
            n(left),
            n(top),
            n(width),
            n(height),
            n(radius),
        ));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.put(format_args!(
            "<path d=\"M{} {}L{} {}\" stroke=\"{stroke}\" stroke-width=\"{}\"/>",
            n(from.0),
            n(from.1),
            n(to.0),
            n(to.1),
            n(width),
        ));
    }

    pub fn circle(&mut self, center: (f64, f64), radius: f64, fill: &str) {
        self.put(format_args!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{fill}\"/>",
            n(center.0),
            n(center.1),
            n(radius),
        ));
    }

    /// A line along a path; `dashes` of nothing is a whole line.
    pub fn stroke(&mut self, path: &str, stroke: &str, width: f64, dashes: &str) {
        let dashes = if dashes.is_empty() {
            String::new()
        } else {
            format!(" stroke-dasharray=\"{dashes}\"")
        };
        self.put(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{}\" \
             stroke-linejoin=\"round\"{dashes}/>",
            n(width),
        ));
    }

    pub fn fill(&mut self, path: &str, fill: &str, opacity: f64) {
        let opacity = opacity_of("fill-opacity", opacity);
        self.put(format_args!("<path d=\"{path}\" fill=\"{fill}\"{opacity}/>"));
    }

    pub fn text(&mut self, at: (f64, f64), text: &str, ink: Ink<'_>) {
        let anchor = match ink.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if ink.bold { " font-weight=\"bold\"" } else { "" };
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{anchor}{weight}>{}</text>",
            n(at.0),
            n(at.1),
            n(ink.size),
            ink.color,
            escaped(text),
        ));
    }

    /// A raster picture, its pixels drawn as they are.
    pub fn image(&mut self, area: Area, png: &[u8]) {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        let Area { left, top, width, height } = area;
        self.put(format_args!(
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
             href=\"data:image/png;base64,{data}\"/>",
            n(left),
            n(top),
            n(width),
            n(height),
        ));
    }

    /// What `draw` draws, cut at the edges of `area`.
    pub fn clipped(&mut self, area: Area, draw: impl FnOnce(&mut Canvas)) {
        self.clips += 1;
        let clip = self.clips;
        let Area { left, top, width, height } = area;
        self.put(format_args!(
            "<clipPath id=\"c{0}\"><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\"/>\
             </clipPath><g clip-path=\"url(#c{0})\">",
            clip,
            n(left),
            n(top),
            n(width),
            n(height),
        ));
        draw(self);
        self.body.push_str("</g>\n");
    }

    /// The picture, whole; `title` is what screen readers say of it.
    pub fn finish(self, width: f64, height: f64, background: &str, title: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" \
             viewBox=\"0 0 {0} {1}\" role=\"img\" font-family=\"{FONTS}\">\n\
             <title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"{background}\"/>\n{3}</svg>\n",
            n(width),
            n(height),
            escaped(title),
            self.body
        )
    }

    fn put(&mut self, shape: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{shape}");
    }
}

fn opacity_of(name: &str, opacity: f64) -> String {
    if opacity >= 1.0 { String::new() } else { format!(" {name}=\"{}\"", n(opacity)) }
}

/// A number with at most two decimals; what is no number is 0, so that a picture stays well-formed.
pub fn n(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `text` as character data of XML; characters that XML does not allow are left out.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_escaped() {
        assert_eq!(fitted("metadata", 12.0, 500.0), "metadata");
        let cut = fitted("metadata of everything", 12.0, 60.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0) <= 60.0, "{cut}");
        assert_eq!(fitted("metadata", 12.0, 1.0), "");
        assert_eq!(escaped("a<b & \"c\"\n\u{1}"), "a&lt;b &amp; &quot;c&quot; ");
    }

    #[test]
    fn numbers_are_short_and_finite() {
        for (value, text) in
            [(1.0, "1"), (0.126, "0.13"), (-0.001, "0"), (f64::NAN, "0"), (100.0, "100")]
        {
            assert_eq!(n(value), text, "{value}");
        }
    }
}
