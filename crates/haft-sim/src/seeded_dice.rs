//! Random numbers that depend on the seed and on the decision they are for.

/// A random number generator for one decision.
#[derive(Debug, Clone)]
pub(crate) struct SeededDice(u64);

impl SeededDice {
    /// Creates the generator for a decision.
    pub(crate) fn for_decision(seed: u64, about: &[&str]) -> SeededDice {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for part in about {
            // FNV-1a over the parts, with a separator between them.
            for byte in part.bytes().chain([0xff]) {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        let mut dice = SeededDice(state);
        dice.next();
        dice
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to just below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides.max(1)
    }

    /// Returns `true` with this probability.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    /// Returns one of the values.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.roll(from.len() as u64);
        from[usize::try_from(at).unwrap_or_default()]
    }

    /// Returns one of the values, by weight.
    pub(crate) fn pick_weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let mut at = self.roll(from.iter().map(|(shares, _)| shares).sum());
        for (shares, one) in from {
            match at.checked_sub(*shares) {
                Some(rest) => at = rest,
                None => return *one,
            }
        }
        from[0].1
    }
}
