//! Words around numbers and names, in messages and reports.

/// `3 trials`, `1 trial`, `2 matches`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ if noun.ends_with("sh") || noun.ends_with("ch") => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!(counted(0, "trial"), "0 trials");
        assert_eq!(counted(1, "trial"), "1 trial");
        assert_eq!(counted(2, "flush"), "2 flushes");
    }

    #[test]
    fn the_last_of_several_is_joined_by_a_word() {
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}
