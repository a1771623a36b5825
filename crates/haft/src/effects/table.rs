//! The one table: what follows from each thing that a call can declare.
//!
//! Dispatcher, rules, display, journal and sandbox each read a column; nobody keeps a list of their own. Several
//! things declared at once add up to the strictest answer of their rows.

use serde::{Deserialize, Serialize};

use super::{Access, Effects};

/// How a call gets along with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Class {
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
pub enum Asks {
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
pub enum Destroys {
    /// Nothing.
    No,
    /// What was there before, if something was and no copy is kept.
    Overwritten,
    /// Yes.
    Yes,
}

/// What a child process that serves the call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Child {
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
pub enum Declared {
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
    /// Runs a command whose effects aren't known or not enforced. (One whose effects are both counts as those.)
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
pub struct Row {
    /// What is declared.
    pub declared: Declared,
    /// For the scheduler.
    pub class: Class,
    /// For the rules, when none speaks.
    pub asks: Asks,
    /// For rules and display.
    pub destroys: Destroys,
    /// For the journal: whether it may be run again after a crash.
    pub rerun: bool,
    /// For the sandbox.
    pub child: Child,
}

const fn row(
    declared: Declared,
    class: Class,
    asks: Asks,
    destroys: Destroys,
    rerun: bool,
    child: Child,
) -> Row {
    Row { declared, class, asks, destroys, rerun, child }
}

/// The table itself.
#[rustfmt::skip]
pub const TABLE: [Row; 13] = [
    row(Declared::Nothing,     Class::ReadOnly,       Asks::No,     Destroys::No,          true,  Child::NothingWritable),
    row(Declared::ReadInside,  Class::ReadOnly,       Asks::No,     Destroys::No,          true,  Child::Readable),
    row(Declared::StateRead,   Class::ReadOnly,       Asks::No,     Destroys::No,          true,  Child::Readable),
    row(Declared::ReadOutside, Class::ReadOnly,       Asks::Yes,    Destroys::No,          true,  Child::ReadableWhenGranted),
    row(Declared::Observe,     Class::ReadOnly,       Asks::Yes,    Destroys::No,          true,  Child::ThatHost),
    row(Declared::Write,       Class::WriteExclusive, Asks::Yes,    Destroys::Overwritten, false, Child::WritableWhenGranted),
    row(Declared::Delete,      Class::WriteExclusive, Asks::Yes,    Destroys::Yes,         false, Child::AsGranted),
    row(Declared::Change,      Class::WriteExclusive, Asks::Yes,    Destroys::Yes,         false, Child::AsGranted),
    row(Declared::StateWrite,  Class::WriteExclusive, Asks::ByTool, Destroys::No,          false, Child::None),
    row(Declared::Run,         Class::Unsafe,         Asks::Yes,    Destroys::Yes,         false, Child::AlwaysConfined),
    row(Declared::Delegate,    Class::Delegating,     Asks::No,     Destroys::No,          false, Child::None),
    row(Declared::AskUser,     Class::WriteExclusive, Asks::No,     Destroys::No,          false, Child::None),
    row(Declared::Unknown,     Class::Unsafe,         Asks::Always, Destroys::Yes,         false, Child::Session),
];

/// What the table needs to know besides the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Some read lies outside of the working directories.
    pub reads_outside: bool,
    /// Some write meets a file that exists and of which no copy is kept.
    pub overwrites: bool,
    /// Commands run where only their declared effects can happen.
    pub confined: bool,
}

impl Facts {
    /// Before anybody looked: the worst.
    pub fn unresolved() -> Facts {
        Facts { reads_outside: true, overwrites: true, confined: false }
    }
}

/// What follows from the effects of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectClass {
    /// How it gets along with others.
    pub class: Class,
    /// Whether it needs a yes when no rule speaks.
    pub asks: Asks,
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
        class: Class::ReadOnly,
        asks: Asks::No,
        read_only: true,
        destructive: false,
        concurrency_safe: true,
        rerunnable: true,
    };
}

impl Effects {
    /// The rows of [`TABLE`] that this declaration meets.
    pub fn rows(&self, facts: &Facts) -> impl Iterator<Item = &'static Row> {
        let met = self.met(facts);
        TABLE.iter().filter(move |row| met & bit(row.declared) != 0)
    }

    /// The rows as a set of bits. The common declarations cost a few comparisons.
    fn met(&self, facts: &Facts) -> u16 {
        let mut met = 0;
        let mut meet = |condition: bool, declared: Declared| {
            if condition {
                met |= bit(declared);
            }
        };
        meet(self.unknown, Declared::Unknown);
        meet(!self.reads.is_empty() && !facts.reads_outside, Declared::ReadInside);
        meet(!self.reads.is_empty() && facts.reads_outside, Declared::ReadOutside);
        meet(!self.writes.is_empty(), Declared::Write);
        meet(!self.deletes.is_empty(), Declared::Delete);
        meet(self.delegates, Declared::Delegate);
        meet(self.asks_user, Declared::AskUser);
        for reach in &self.reaches {
            meet(true, if reach.access == Access::Observe { Declared::Observe } else { Declared::Change });
        }
        for state in &self.state {
            meet(
                true,
                if state.access == Access::Observe { Declared::StateRead } else { Declared::StateWrite },
            );
        }
        let mut inner = 0;
        for command in &self.runs {
            match &command.effects {
                Some(effects) if facts.confined => inner |= effects.met(facts),
                _ => inner |= bit(Declared::Run),
            }
        }
        met |= inner;
        if met == 0 { bit(Declared::Nothing) } else { met }
    }

    /// What follows from this declaration: the strictest of its rows, then the tool's stricter claims.
    ///
    /// Claims that contradict the declaration make it unknown.
    pub fn judge(&self, facts: &Facts) -> EffectClass {
        if self.is_none() {
            return EffectClass::NOTHING;
        }
        if self.consistent().is_err() {
            return Effects::unknown().judge(facts);
        }
        let (mut class, mut asks, mut destroys, mut rerun) = (Class::ReadOnly, Asks::No, Destroys::No, true);
        let mut met = self.met(facts);
        while met != 0 {
            let row = &TABLE[met.trailing_zeros() as usize];
            met &= met - 1;
            class = class.max(row.class);
            asks = asks.max(row.asks);
            destroys = destroys.max(row.destroys);
            rerun &= row.rerun;
        }
        let destroyed = destroys == Destroys::Yes || (destroys == Destroys::Overwritten && facts.overwrites);
        EffectClass {
            class,
            asks,
            read_only: class == Class::ReadOnly && self.claims.read_only != Some(false),
            destructive: destroyed || self.claims.destructive == Some(true),
            concurrency_safe: match self.claims.concurrency_safe {
                // What nobody can bound can't be synchronised by anybody.
                Some(safe) => safe && class != Class::Unsafe,
                None => class <= Class::Delegating,
            },
            rerunnable: rerun || (self.repeatable && class != Class::Unsafe),
        }
    }
}

/// The place of a row in the table, as a bit. Rows stand in the order of [`Declared`]; a test holds that.
const fn bit(declared: Declared) -> u16 {
    1 << declared as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a row of the table in the documents: declared, then class, asks, destructive, may be run again.
    #[test]
    fn the_table_is_the_one_in_the_documents() {
        let inside = Facts { reads_outside: false, overwrites: false, confined: false };
        let worst = Facts::unresolved();
        let confined = Facts { confined: true, ..inside };
        let listing = Effects {
            runs: vec![super::super::Command {
                text: "ls".into(),
                effects: Some(Box::new(Effects::reads("."))),
            }],
            ..Effects::none()
        };
        let check = |effects: &Effects, facts: &Facts, expected: &str| {
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
        let class = effects.judge(&Facts { reads_outside: false, overwrites: false, confined: false });
        assert_eq!((class.class, class.asks), (Class::WriteExclusive, Asks::Yes));
        let declared: Vec<_> = effects.rows(&Facts::unresolved()).map(|row| row.declared).collect();
        assert_eq!(declared, [Declared::ReadOutside, Declared::Observe, Declared::StateWrite]);
    }

    #[test]
    fn claims_make_it_stricter_and_contradictions_make_it_unknown() {
        let worst = Facts::unresolved();
        assert!(!Effects::reads("a").exclusive().judge(&worst).concurrency_safe);
        assert!(Effects::reads("a").destructive().judge(&worst).destructive);
        assert!(Effects::writes("a").synchronised().judge(&worst).concurrency_safe);
        let mut lie = Effects::writes("a").synchronised();
        lie.claims.read_only = Some(true);
        assert_eq!(lie.judge(&worst), Effects::unknown().judge(&worst));
    }

    #[test]
    fn a_declared_repetition_counts_only_where_effects_are_known() {
        let worst = Facts::unresolved();
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
