//! What of the sandbox this machine supports, tried for real.

use haft_sandbox::{Finding, Maker, Stack, maker_of, probe, stack_of};

/// What of the sandbox this machine supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    /// How much of the sandbox can be made.
    pub level: SandboxLevel,
    /// The maker of the namespaces; `None` if they can't all be made.
    pub namespace_maker: Option<NamespaceMaker>,
    /// The parts that were tried.
    pub parts: Vec<SandboxPart>,
    /// How many processes commands may have.
    pub process_limits: String,
}

/// How much of the sandbox can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxLevel {
    /// All of it.
    Full,
    /// Reads are limited; no names are protected, and no hosts can be granted.
    Fallback,
    /// Nothing: commands are refused.
    Unavailable,
}

/// The maker of the namespaces of the sandbox. The guarantees are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceMaker {
    /// This process.
    OwnProcess,
    /// Bubblewrap, because this machine doesn't let this process.
    Bubblewrap,
}

/// A part of the sandbox that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPart {
    /// What it is.
    pub name: &'static str,
    /// Whether it works.
    pub works: bool,
    /// What was found.
    pub detail: String,
    /// The level that is impossible without it; `None` if it is optional.
    pub needed_for: Option<SandboxLevel>,
    /// How to make it work.
    pub advice: Option<String>,
}

impl SandboxReport {
    /// Tries every part. Starts helper processes, which end at once.
    pub fn probe() -> SandboxReport {
        let findings = probe(None);
        SandboxReport {
            level: stack_of(&findings).into(),
            namespace_maker: maker_of(&findings).and_then(|maker| match maker {
                Maker::Ourselves => Some(NamespaceMaker::OwnProcess),
                Maker::Bubblewrap => Some(NamespaceMaker::Bubblewrap),
                Maker::Either => None,
            }),
            parts: findings.into_iter().map(SandboxPart::from).collect(),
            process_limits: haft_sandbox::describe_process_limits(),
        }
    }
}

impl From<Stack> for SandboxLevel {
    fn from(stack: Stack) -> SandboxLevel {
        match stack {
            Stack::Full => SandboxLevel::Full,
            Stack::Fallback => SandboxLevel::Fallback,
            Stack::None => SandboxLevel::Unavailable,
        }
    }
}

impl From<Finding> for SandboxPart {
    fn from(finding: Finding) -> SandboxPart {
        SandboxPart {
            name: finding.part,
            works: finding.works,
            detail: finding.detail,
            needed_for: finding.needed_for.map(SandboxLevel::from),
            advice: finding.advice,
        }
    }
}
