//! The Mersenne Twister MT19937: its words, and its seeding of 1999. What is drawn from the words, and
//! the other seedings, is left to those who use it.
//!
//! Matsumoto and Nishimura, "Mersenne Twister" (1998); the seeding of 1999 is that of their program of
//! that year, which other programs of the time took over.

/// Words of the state.
pub(super) const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// The generator, in the middle of its sequence.
#[derive(Debug, Clone)]
pub struct Mt19937 {
    state: [u32; WORDS],
    position: usize,
}

impl Mt19937 {
    /// The generator seeded as in 1999: each word of the state is made of the upper halves of two steps
    /// of a linear congruential generator.
    #[must_use]
    pub fn of_1999(seed: u32) -> Self {
        let mut linear = seed;
        let mut upper_half = || {
            let half = linear & 0xffff_0000;
            linear = linear.wrapping_mul(69_069).wrapping_add(1);
            half
        };
        let mut state = [0; WORDS];
        for word in &mut state {
            *word = upper_half();
            *word |= upper_half() >> 16;
        }
        Self::from_state(state)
    }

    /// The generator that begins with `state`.
    pub(super) fn from_state(state: [u32; WORDS]) -> Self {
        Self { state, position: WORDS }
    }

    fn regenerate(&mut self) {
        for index in 0..WORDS {
            let joined =
                (self.state[index] & 0x8000_0000) | (self.state[(index + 1) % WORDS] & 0x7fff_ffff);
            let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[index] = self.state[(index + MIDDLE) % WORDS] ^ (joined >> 1) ^ twist;
        }
        self.position = 0;
    }

    /// The next 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.position == WORDS {
            self.regenerate();
        }
        let mut word = self.state[self.position];
        self.position += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that a program of that year fills its buffer with: `32 + word % 95`, seed 42.
    #[test]
    fn the_seeding_of_1999_gives_the_known_text() {
        let mut generator = Mt19937::of_1999(42);
        let text: Vec<u8> = (0..32).map(|_| 32 + (generator.next_u32() % 95) as u8).collect();
        assert_eq!(String::from_utf8(text).unwrap(), "LeZebJ6S5~qPv$C$py}hmKd H58nM4~.");
        for _ in 32..4096 {
            generator.next_u32();
        }
        let text: Vec<u8> = (0..16).map(|_| 32 + (generator.next_u32() % 95) as u8).collect();
        assert_eq!(String::from_utf8(text).unwrap(), "KDIbi>%L^u%*$D'*");
    }
}
