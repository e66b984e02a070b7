//! Colours, for light and for dark paper. Hues are those of Okabe and Ito, which people with any kind
//! of colour vision tell apart; on dark paper they are lighter.

use fsdyno_model::io_graph::IoClass;

/// Colours of one picture, as `#rrggbb`.
#[derive(Debug)]
pub struct Theme {
    pub background: &'static str,
    pub plot: &'static str,
    pub grid: &'static str,
    pub axis: &'static str,
    pub text: &'static str,
    pub muted: &'static str,
    /// What was lost or damaged.
    pub warning: &'static str,
    /// By [`IoClass`], in its order.
    classes: [&'static str; 7],
    /// For traces, targets and groups, in this order.
    palette: [&'static str; 11],
}

static LIGHT: Theme = Theme {
    background: "#ffffff",
    plot: "#f7f8fa",
    grid: "#e1e5ea",
    axis: "#aab3bd",
    text: "#1b2127",
    muted: "#5d6873",
    warning: "#b03a00",
    classes: ["#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#c2609a", "#8a939c", "#009e73"],
    palette: [
        "#0072b2", "#d55e00", "#009e73", "#c2609a", "#e69f00", "#56b4e9", "#6b5b95", "#8a939c",
        "#8c5a2b", "#3c4a5a", "#b3a125",
    ],
};

static DARK: Theme = Theme {
    background: "#12161b",
    plot: "#191f26",
    grid: "#2a323c",
    axis: "#4b5763",
    text: "#e8ebee",
    muted: "#9ba6b1",
    warning: "#ff9a5c",
    classes: ["#3f9fe6", "#a4dcff", "#f2762a", "#ffc34d", "#e58cc2", "#98a2ad", "#2fc99c"],
    palette: [
        "#4aa8ee", "#f2762a", "#2fc99c", "#e58cc2", "#ffc34d", "#a4dcff", "#ab9be0", "#98a2ad",
        "#c08a55", "#dfe5ea", "#d8cf5a",
    ],
};

impl Theme {
    pub fn of(dark: bool) -> &'static Theme {
        if dark { &DARK } else { &LIGHT }
    }

    pub fn class(&self, class: IoClass) -> &'static str {
        self.classes[class as usize]
    }

    /// Reads, whatever they are for.
    pub fn reads(&self) -> &'static str {
        self.class(IoClass::ReadData)
    }

    /// Writes, whatever they are for.
    pub fn writes(&self) -> &'static str {
        self.class(IoClass::WriteData)
    }

    /// The colour number `index` of those for traces, targets and groups.
    pub fn nth(&self, index: usize) -> &'static str {
        self.palette[index % self.palette.len()]
    }
}

/// Red, green and blue of `#rrggbb`.
pub fn rgb(color: &str) -> [u8; 3] {
    let channel = |from: usize| {
        let digits = color.get(from..from + 2);
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0)
    };
    [channel(1), channel(3), channel(5)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of WCAG 2.
    fn luminance(color: &str) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = rgb(color).map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        (a / b).max(b / a)
    }

    #[test]
    fn text_and_marks_stand_out_from_the_paper() {
        for dark in [false, true] {
            let theme = Theme::of(dark);
            for text in [theme.text, theme.muted, theme.warning] {
                assert!(contrast(text, theme.background) >= 4.5, "{text} {dark}");
            }
            for mark in theme.classes.into_iter().chain(theme.palette) {
                assert!(contrast(mark, theme.plot) >= 2.0, "{mark} {dark}");
            }
        }
    }

    #[test]
    fn colors_are_read() {
        assert_eq!(rgb("#0072b2"), [0, 0x72, 0xb2]);
        assert_eq!(rgb("?"), [0, 0, 0]);
    }
}
