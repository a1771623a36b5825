//! The one table: what follows from each thing that a call can declare.
//!
//! Dispatcher, rules, display, journal and sandbox each read a column; nobody keeps a list of their own.
//! Several things declared at once add up to the strictest answer of their rows.

use serde::{Deserialize, Serialize};

use super::{AccessKind, Effects};

/// How a call gets along with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConcurrencyClass {
    /// Changes nothing; runs beside others.
    ReadOnly,
    /// Changes nothing by itself; what it starts is judged call by call. Runs beside others.
    Delegating,
    /// Changes something that is named; alone.
    WriteExclusive,
    /// Changes what nobody can bound; alone, and in a child wherever there is one.
    Unsafe,
}

/// Whether a call needs a yes when no rule speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalNeed {
    /// Runs unasked.
    No,
    /// Asks unless the tool's own opinion allows it.
    ByTool,
    /// Asks.
    Yes,
    /// Asks in every mode but the one that asks nothing.
    Always,
}

/// Whether a call destroys what can't be brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destructiveness {
    /// Nothing.
    No,
    /// What was there before, if something was and no copy is kept.
    Overwritten,
    /// Yes.
    Yes,
}

/// What a child process that serves the call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChildAccess {
    /// Write nothing.
    NothingWritable,
    /// Read this.
    Readable,
    /// Read this once it was granted.
    ReadableWhenGranted,
    /// Reach this host.
    ThatHost,
    /// Write this once it was granted.
    WritableWhenGranted,
    /// Exactly what was granted.
    AsGranted,
    /// Always a child, always confined.
    AlwaysConfined,
    /// Everything that the session may touch, no more.
    Session,
    /// There is no child.
    None,
}

/// Something that a call can declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeclaredEffect {
    /// Nothing, explicitly.
    Nothing,
    /// Reads in the working directories.
    ReadInside,
    /// Looks at named state.
    StateRead,
    /// Reads elsewhere.
    ReadOutside,
    /// Looks something up at a host.
    Observe,
    /// Creates or changes files.
    Write,
    /// Removes files.
    Delete,
    /// Changes something at a host.
    Change,
    /// Changes named state.
    StateWrite,
    /// Runs a command whose effects aren't known or not enforced. (One whose effects are both counts as
    /// those.)
    Run,
    /// Starts calls that are judged one by one.
    Delegate,
    /// Needs the user.
    AskUser,
    /// Anything, also when deriving failed.
    Unknown,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectRow {
    /// What is declared.
    pub declared: DeclaredEffect,
    /// For the scheduler.
    pub class: ConcurrencyClass,
    /// For the rules, when none speaks.
    pub asks: ApprovalNeed,
    /// For rules and display.
    pub destroys: Destructiveness,
    /// For the journal: whether it may be run again after a crash.
    pub rerun: bool,
    /// For the sandbox.
    pub child: ChildAccess,
}

const fn effect_row(
    declared: DeclaredEffect,
    class: ConcurrencyClass,
    asks: ApprovalNeed,
    destroys: Destructiveness,
    rerun: bool,
    child: ChildAccess,
) -> EffectRow {
    EffectRow { declared, class, asks, destroys, rerun, child }
}

/// The table itself.
#[rustfmt::skip]
pub const TABLE: [EffectRow; 13] = [
    effect_row(DeclaredEffect::Nothing,     ConcurrencyClass::ReadOnly,       ApprovalNeed::No,     Destructiveness::No,          true,  ChildAccess::NothingWritable),
    effect_row(DeclaredEffect::ReadInside,  ConcurrencyClass::ReadOnly,       ApprovalNeed::No,     Destructiveness::No,          true,  ChildAccess::Readable),
    effect_row(DeclaredEffect::StateRead,   ConcurrencyClass::ReadOnly,       ApprovalNeed::No,     Destructiveness::No,          true,  ChildAccess::Readable),
    effect_row(DeclaredEffect::ReadOutside, ConcurrencyClass::ReadOnly,       ApprovalNeed::Yes,    Destructiveness::No,          true,  ChildAccess::ReadableWhenGranted),
    effect_row(DeclaredEffect::Observe,     ConcurrencyClass::ReadOnly,       ApprovalNeed::Yes,    Destructiveness::No,          true,  ChildAccess::ThatHost),
    effect_row(DeclaredEffect::Write,       ConcurrencyClass::WriteExclusive, ApprovalNeed::Yes,    Destructiveness::Overwritten, false, ChildAccess::WritableWhenGranted),
    effect_row(DeclaredEffect::Delete,      ConcurrencyClass::WriteExclusive, ApprovalNeed::Yes,    Destructiveness::Yes,         false, ChildAccess::AsGranted),
    effect_row(DeclaredEffect::Change,      ConcurrencyClass::WriteExclusive, ApprovalNeed::Yes,    Destructiveness::Yes,         false, ChildAccess::AsGranted),
    effect_row(DeclaredEffect::StateWrite,  ConcurrencyClass::WriteExclusive, ApprovalNeed::ByTool, Destructiveness::No,          false, ChildAccess::None),
    effect_row(DeclaredEffect::Run,         ConcurrencyClass::Unsafe,         ApprovalNeed::Yes,    Destructiveness::Yes,         false, ChildAccess::AlwaysConfined),
    effect_row(DeclaredEffect::Delegate,    ConcurrencyClass::Delegating,     ApprovalNeed::No,     Destructiveness::No,          false, ChildAccess::None),
    effect_row(DeclaredEffect::AskUser,     ConcurrencyClass::WriteExclusive, ApprovalNeed::No,     Destructiveness::No,          false, ChildAccess::None),
    effect_row(DeclaredEffect::Unknown,     ConcurrencyClass::Unsafe,         ApprovalNeed::Always, Destructiveness::Yes,         false, ChildAccess::Session),
];

/// What the table needs to know besides the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectFacts {
    /// Some read lies outside of the working directories.
    pub reads_outside: bool,
    /// Some write meets a file that exists and of which no copy is kept.
    pub overwrites: bool,
    /// Commands run where only their declared effects can happen.
    pub confined: bool,
}

impl EffectFacts {
    /// Before anybody looked: the worst.
    pub fn unresolved() -> EffectFacts {
        EffectFacts { reads_outside: true, overwrites: true, confined: false }
    }
}

/// What follows from the effects of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectClass {
    /// How it gets along with others.
    pub class: ConcurrencyClass,
    /// Whether it needs a yes when no rule speaks.
    pub asks: ApprovalNeed,
    /// Changes nothing.
    pub read_only: bool,
    /// Destroys what can't be brought back.
    pub destructive: bool,
    /// May run beside others.
    pub concurrency_safe: bool,
    /// May be run again after a crash, or when the tool says that trying again helps.
    pub rerunnable: bool,
}

impl EffectClass {
    /// What follows from the first row alone, the most frequent one.
    const NOTHING: EffectClass = EffectClass {
        class: ConcurrencyClass::ReadOnly,
        asks: ApprovalNeed::No,
        read_only: true,
        destructive: false,
        concurrency_safe: true,
        rerunnable: true,
    };
}

impl Effects {
    /// The rows of [`TABLE`] that this declaration meets.
    pub fn rows(&self, facts: &EffectFacts) -> impl Iterator<Item = &'static EffectRow> {
        let met = self.matching_rows(facts);
        TABLE.iter().filter(move |row| met & effect_bit(row.declared) != 0)
    }

    /// The rows as a set of bits. The common declarations cost a few comparisons.
    fn matching_rows(&self, facts: &EffectFacts) -> u16 {
        let mut met = 0;
        let mut meet = |condition: bool, declared: DeclaredEffect| {
            if condition {
                met |= effect_bit(declared);
            }
        };
        meet(self.unknown, DeclaredEffect::Unknown);
        meet(!self.reads.is_empty() && !facts.reads_outside, DeclaredEffect::ReadInside);
        meet(!self.reads.is_empty() && facts.reads_outside, DeclaredEffect::ReadOutside);
        meet(!self.writes.is_empty(), DeclaredEffect::Write);
        meet(!self.deletes.is_empty(), DeclaredEffect::Delete);
        meet(self.delegates, DeclaredEffect::Delegate);
        meet(self.asks_user, DeclaredEffect::AskUser);
        for reach in &self.reaches {
            meet(
                true,
                if reach.access == AccessKind::Observe {
                    DeclaredEffect::Observe
                } else {
                    DeclaredEffect::Change
                },
            );
        }
        for state in &self.state {
            meet(
                true,
                if state.access == AccessKind::Observe {
                    DeclaredEffect::StateRead
                } else {
                    DeclaredEffect::StateWrite
                },
            );
        }
        let mut inner = 0;
        for command in &self.runs {
            match &command.effects {
                Some(effects) if facts.confined => inner |= effects.matching_rows(facts),
                _ => inner |= effect_bit(DeclaredEffect::Run),
            }
        }
        met |= inner;
        if met == 0 { effect_bit(DeclaredEffect::Nothing) } else { met }
    }

    /// What follows from this declaration: the strictest of its rows, then the tool's stricter claims.
    ///
    /// Claims that contradict the declaration make it unknown.
    pub fn judge(&self, facts: &EffectFacts) -> EffectClass {
        if self.is_none() {
            return EffectClass::NOTHING;
        }
        if self.consistent().is_err() {
            return Effects::unknown().judge(facts);
        }
        let (mut class, mut asks, mut destroys, mut rerun) =
            (ConcurrencyClass::ReadOnly, ApprovalNeed::No, Destructiveness::No, true);
        let mut met = self.matching_rows(facts);
        while met != 0 {
            let row = &TABLE[met.trailing_zeros() as usize];
            met &= met - 1;
            class = class.max(row.class);
            asks = asks.max(row.asks);
            destroys = destroys.max(row.destroys);
            rerun &= row.rerun;
        }
        let destroyed = destroys == Destructiveness::Yes
            || (destroys == Destructiveness::Overwritten && facts.overwrites);
        EffectClass {
            class,
            asks,
            read_only: class == ConcurrencyClass::ReadOnly && self.claims.read_only != Some(false),
            destructive: destroyed || self.claims.destructive == Some(true),
            concurrency_safe: match self.claims.concurrency_safe {
                // What nobody can bound can't be synchronised by anybody.
                Some(safe) => safe && class != ConcurrencyClass::Unsafe,
                None => class <= ConcurrencyClass::Delegating,
            },
            rerunnable: rerun || (self.repeatable && class != ConcurrencyClass::Unsafe),
        }
    }
}

/// The place of a row in the table, as a bit. Rows stand in the order of [`DeclaredEffect`]; a test holds
/// that.
const fn effect_bit(declared: DeclaredEffect) -> u16 {
    1 << declared as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a row of the table in the documents: declared, then class, asks, destructive, may be run
    /// again.
    #[test]
    fn the_table_is_the_one_in_the_documents() {
        let inside = EffectFacts { reads_outside: false, overwrites: false, confined: false };
        let worst = EffectFacts::unresolved();
        let confined = EffectFacts { confined: true, ..inside };
        let listing = Effects {
            runs: vec![super::super::CommandEffect {
                text: "ls".into(),
                effects: Some(Box::new(Effects::reads("."))),
            }],
            ..Effects::none()
        };
        let check = |effects: &Effects, facts: &EffectFacts, expected: &str| {
            let class = effects.judge(facts);
            let words = format!(
                "{:?} asks:{:?} destructive:{} rerun:{}",
                class.class, class.asks, class.destructive, class.rerunnable
            );
            assert_eq!(words, expected, "{effects}");
        };
        check(&Effects::none(), &worst, "ReadOnly asks:No destructive:false rerun:true");
        check(&Effects::reads("a"), &inside, "ReadOnly asks:No destructive:false rerun:true");
        check(&Effects::reads_state("s"), &inside, "ReadOnly asks:No destructive:false rerun:true");
        check(&Effects::reads("a"), &worst, "ReadOnly asks:Yes destructive:false rerun:true");
        check(&Effects::observes("h"), &inside, "ReadOnly asks:Yes destructive:false rerun:true");
        check(&Effects::writes("a"), &inside, "WriteExclusive asks:Yes destructive:false rerun:false");
        check(&Effects::writes("a"), &worst, "WriteExclusive asks:Yes destructive:true rerun:false");
        check(&Effects::deletes("a"), &inside, "WriteExclusive asks:Yes destructive:true rerun:false");
        check(&Effects::changes("h"), &inside, "WriteExclusive asks:Yes destructive:true rerun:false");
        check(
            &Effects::writes_state("s"),
            &inside,
            "WriteExclusive asks:ByTool destructive:false rerun:false",
        );
        check(&listing, &confined, "ReadOnly asks:No destructive:false rerun:true");
        check(&listing, &inside, "Unsafe asks:Yes destructive:true rerun:false");
        check(&Effects::runs("x"), &confined, "Unsafe asks:Yes destructive:true rerun:false");
        check(&Effects::delegates(), &inside, "Delegating asks:No destructive:false rerun:false");
        check(&Effects::asks_user(), &inside, "WriteExclusive asks:No destructive:false rerun:false");
        check(&Effects::unknown(), &inside, "Unsafe asks:Always destructive:true rerun:false");
    }

    #[test]
    fn several_things_add_up_to_the_strictest() {
        let effects = Effects::reads("a").and(Effects::writes_state("s")).and(Effects::observes("h"));
        let class = effects.judge(&EffectFacts { reads_outside: false, overwrites: false, confined: false });
        assert_eq!((class.class, class.asks), (ConcurrencyClass::WriteExclusive, ApprovalNeed::Yes));
        let declared: Vec<_> = effects.rows(&EffectFacts::unresolved()).map(|row| row.declared).collect();
        assert_eq!(
            declared,
            [DeclaredEffect::ReadOutside, DeclaredEffect::Observe, DeclaredEffect::StateWrite]
        );
    }

    #[test]
    fn claims_make_it_stricter_and_contradictions_make_it_unknown() {
        let worst = EffectFacts::unresolved();
        assert!(!Effects::reads("a").exclusive().judge(&worst).concurrency_safe);
        assert!(Effects::reads("a").destructive().judge(&worst).destructive);
        assert!(Effects::writes("a").synchronised().judge(&worst).concurrency_safe);
        let mut lie = Effects::writes("a").synchronised();
        lie.claims.read_only = Some(true);
        assert_eq!(lie.judge(&worst), Effects::unknown().judge(&worst));
    }

    #[test]
    fn a_declared_repetition_counts_only_where_effects_are_known() {
        let worst = EffectFacts::unresolved();
        assert!(Effects::writes("a").repeatable().judge(&worst).rerunnable);
        assert!(!Effects::unknown().repeatable().judge(&worst).rerunnable);
    }

    #[test]
    fn rows_stand_in_the_order_of_their_kind() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(row.declared as usize, place);
        }
    }
}
