//! Dice: numbers that follow from the seed and from what is decided with them.

/// A die for one decision.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The die for this decision.
    pub(crate) fn of(seed: u64, about: &[&str]) -> Dice {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for part in about {
            // FNV-1a over the words, with a stop between them.
            for byte in part.bytes().chain([0xff]) {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        let mut dice = Dice(state);
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

    /// From 0 to just below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides.max(1)
    }

    /// Yes in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.roll(from.len() as u64);
        from[usize::try_from(at).unwrap_or_default()]
    }

    /// One of these, by how many shares each has.
    pub(crate) fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
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
