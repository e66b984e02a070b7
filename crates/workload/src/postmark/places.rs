//! Which places of a table are free, so that the first of them is found at once. The original looks at
//! every place from the start; with the files of a large pool that takes longer than the calls.

const BITS: usize = u64::BITS as usize;

/// A set of free places: a bit for each, and a bit for each word of these that is not 0.
#[derive(Debug, Clone)]
pub struct FreePlaces {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl FreePlaces {
    /// `count` places, all of them free.
    #[must_use]
    pub fn new(count: usize) -> FreePlaces {
        let words = count.div_ceil(BITS);
        let mut places =
            FreePlaces { words: vec![0; words], summary: vec![0; words.div_ceil(BITS)] };
        (0..count).for_each(|place| places.give(place));
        places
    }

    /// Whether `place` is free; one beyond the table is not.
    #[inline]
    #[must_use]
    pub fn is_free(&self, place: usize) -> bool {
        self.words.get(place / BITS).is_some_and(|word| word >> (place % BITS) & 1 == 1)
    }

    /// The first free place; `None` where the table is full.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        let lowest = |word: u64| word.trailing_zeros() as usize;
        let index = self.summary.iter().position(|word| *word != 0)?;
        let word = index * BITS + lowest(self.summary[index]);
        Some(word * BITS + lowest(self.words[word]))
    }

    /// Makes `place` free.
    #[inline]
    pub fn give(&mut self, place: usize) {
        let word = place / BITS;
        self.words[word] |= 1 << (place % BITS);
        self.summary[word / BITS] |= 1 << (word % BITS);
    }

    /// Takes `place`.
    #[inline]
    pub fn take(&mut self, place: usize) {
        let word = place / BITS;
        self.words[word] &= !(1 << (place % BITS));
        if self.words[word] == 0 {
            self.summary[word / BITS] &= !(1 << (word % BITS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_is_a_table_of_flags(count in 1usize..10_000, steps: Vec<(proptest::sample::Index, bool)>) {
            let mut places = FreePlaces::new(count);
            let mut flags = vec![true; count];
            // The first half is taken, so that whole words are.
            for (place, flag) in flags.iter_mut().enumerate().take(count / 2) {
                places.take(place);
                *flag = false;
            }
            for (index, gives) in steps {
                let place = index.index(count);
                if gives { places.give(place) } else { places.take(place) }
                flags[place] = gives;
                proptest::prop_assert_eq!(places.first(), flags.iter().position(|free| *free));
                proptest::prop_assert_eq!(places.is_free(place), gives);
            }
            proptest::prop_assert!(!places.is_free(count) && !places.is_free(count + 1000));
            (0..count).for_each(|place| places.take(place));
            proptest::prop_assert_eq!(places.first(), None);
        }
    }
}
