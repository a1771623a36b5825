//! Reports which sandbox features this machine supports, by trying them.

use haft_sandbox::{ProbeResult, SandboxStack, UserNamespaceMaker, maker_of, probe, stack_of};

/// The sandbox features that this machine supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    /// How much of the sandbox is available.
    pub level: SandboxLevel,
    /// The maker of the namespaces; `None` if some can't be created.
    pub namespace_maker: Option<NamespaceMaker>,
    /// The parts that were tried.
    pub parts: Vec<SandboxPart>,
    /// The process limits of commands.
    pub process_limits: String,
    /// What confines isolated tools, and decoders of PDF files, images and notebooks.
    pub isolated_code: String,
}

/// How much of the sandbox is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxLevel {
    /// The complete sandbox.
    Full,
    /// Reads are restricted, but names are not protected, and hosts can't be granted.
    Fallback,
    /// No sandbox: commands are refused.
    Unavailable,
}

/// The maker of the namespaces of the sandbox. The guarantees are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceMaker {
    /// This process.
    OwnProcess,
    /// Bubblewrap, because this machine doesn't permit it to this process.
    Bubblewrap,
}

/// A part of the sandbox that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPart {
    /// The name.
    pub name: &'static str,
    /// Whether it works.
    pub works: bool,
    /// The finding.
    pub detail: String,
    /// The level that requires it; `None` if it is optional.
    pub needed_for: Option<SandboxLevel>,
    /// How to enable it.
    pub advice: Option<String>,
}

impl SandboxReport {
    /// Tries every part. Starts helper processes that end immediately.
    pub fn probe() -> SandboxReport {
        let findings = probe(None);
        let level = SandboxLevel::from(stack_of(&findings));
        SandboxReport {
            level,
            namespace_maker: maker_of(&findings).and_then(|maker| match maker {
                UserNamespaceMaker::Ourselves => Some(NamespaceMaker::OwnProcess),
                UserNamespaceMaker::Bubblewrap => Some(NamespaceMaker::Bubblewrap),
                UserNamespaceMaker::Either => None,
            }),
            parts: findings.into_iter().map(SandboxPart::from).collect(),
            process_limits: haft_sandbox::describe_process_limits(),
            isolated_code: describe_isolated_code(level),
        }
    }
}

fn describe_isolated_code(level: SandboxLevel) -> String {
    let confines = match level {
        SandboxLevel::Full => "a sandbox that shows the system and what a call declared",
        SandboxLevel::Fallback => "Landlock, which lets it read the system and what a call declared",
        SandboxLevel::Unavailable => "nothing else",
    };
    let memory = haft::limits::ISOLATED_MEMORY_BYTES_MAX >> 30;
    format!("a child process with limits of memory ({memory} GB) and time, and {confines}")
}

impl From<SandboxStack> for SandboxLevel {
    fn from(stack: SandboxStack) -> SandboxLevel {
        match stack {
            SandboxStack::Full => SandboxLevel::Full,
            SandboxStack::Fallback => SandboxLevel::Fallback,
            SandboxStack::None => SandboxLevel::Unavailable,
        }
    }
}

impl From<ProbeResult> for SandboxPart {
    fn from(finding: ProbeResult) -> SandboxPart {
        SandboxPart {
            name: finding.part,
            works: finding.works,
            detail: finding.detail,
            needed_for: finding.needed_for.map(SandboxLevel::from),
            advice: finding.advice,
        }
    }
}
