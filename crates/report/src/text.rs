//! Text for a terminal: widths, wrapping, plain ASCII. What the text says is left to others.

use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthStr;

/// A space at which no line may break; written as a space in the end.
pub const NO_BREAK: char = '\u{a0}';

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` in characters that every terminal has, when `unicode` is false; characters that have no
/// plain form become `?`.
pub fn plain(text: &str, unicode: bool) -> String {
    if unicode {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.replace(" ·", ",").replace("\u{a0}·", ",").chars() {
        match c {
            '–' | '—' | '─' => plain.push('-'),
            '×' => plain.push('x'),
            '±' => plain.push_str("+/-"),
            '…' => plain.push_str("..."),
            '≥' => plain.push_str(">="),
            'µ' => plain.push('u'),
            NO_BREAK => plain.push(c),
            c if c.is_ascii() => plain.push(c),
            _ => plain.push('?'),
        }
    }
    plain
}

/// Wraps `text` to `width` columns; lines after the first are indented by `indent`. Numbers are not
/// torn from `×` and `%`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let glued = text
        .replace(" ×", "\u{a0}×")
        .replace(" x ", "\u{a0}x ")
        .replace(" % interval", "\u{a0}%\u{a0}interval")
        .replace(" %", "\u{a0}%");
    let options = Options::new(width.max(8))
        .subsequent_indent(indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(&glued, options).replace(NO_BREAK, " ")
}

/// `text` in at most `limit` columns, cut at the end with `…` (three points in plain text).
pub fn cut(text: &str, limit: usize, unicode: bool) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let ellipsis = plain("…", unicode);
    let mut cut = String::new();
    for c in text.chars() {
        let mut longer = cut.clone();
        longer.push(c);
        if width(&longer) + width(&ellipsis) > limit {
            break;
        }
        cut = longer;
    }
    cut + &ellipsis
}

/// `text`, whose words stay on one line when it is wrapped.
pub fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// `text` with spaces up to `columns`, before it when `right`.
pub fn pad(text: &str, columns: usize, right: bool) -> String {
    let spaces = " ".repeat(columns.saturating_sub(width(text)));
    if right { spaces + text } else { text.to_owned() + &spaces }
}

/// `text` in `style` when `color`.
pub fn styled(text: &str, style: anstyle::Style, color: bool) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_columns() {
        assert_eq!(cut("btrfs", 5, true), "btrfs");
        assert_eq!(cut("btrfs:compress", 6, true), "btrfs…");
        assert_eq!(cut("btrfs:compress", 6, false), "btr...");
        assert_eq!(cut("日本語", 5, true), "日本…");
        assert_eq!(pad("日", 4, true), "  日");
    }

    #[test]
    fn plain_text_is_ascii() {
        let text = plain("1.32 × 4 ±1 [2–3] · 9 µs … ≥ ü", false);
        assert_eq!(text, "1.32 x 4 +/-1 [2-3], 9 us ... >= ?");
    }

    #[test]
    fn lines_do_not_break_within_a_figure() {
        let wrapped = wrap("it was all in all about 1.32 × as fast within 95 % of cases", 28, "  ");
        assert_eq!(wrapped, "it was all in all about\n  1.32 × as fast within 95 %\n  of cases");
    }
}
