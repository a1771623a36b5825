//! `haft doctor`: what of the sandbox this machine can make, tried for real, and what is doubtful about the
//! settings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use haft_session::SessionPurpose;
use haft_session::sandbox_report::{NamespaceMaker, SandboxLevel, SandboxPart, SandboxReport};
use haft_session::trust::TrustState;
use serde::Serialize;

use crate::args::{CommonArgs, DoctorArgs, OutputForm};
use crate::output::{OutputReader, one_line};
use crate::{ExitStatus, UsageError, output, session};

/// Programs that tools start, and what goes without them.
const PROGRAMS: [(&str, &str); 2] =
    [("bash", "commands run in `sh`"), ("git", "nothing that is built in needs it; commands may")];

/// What holds commands back that want too much. Not tried, since it is there wherever a sandbox is.
const BOUNDS: &str = "open files and sizes of files have limits, memory has none";

pub(crate) fn run(args: &DoctorArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let session = session::inspect_session(&common.options(), SessionPurpose::Inspect)?;
    let sandbox = SandboxReport::probe();
    let report = DoctorReport {
        sandbox: sandbox.level.into(),
        namespaces: sandbox.namespace_maker.map(NamespaceSource::from),
        parts: sandbox.parts.into_iter().map(SandboxCheck::from).collect(),
        process_limits: sandbox.process_limits,
        isolated_code: sandbox.isolated_code,
        programs: PROGRAMS.into_iter().map(|(name, without)| ProgramCheck::find(name, without)).collect(),
        workspace: session.given.workspace().display().to_string(),
        trust: match session.given.trust_state() {
            TrustState::NotNeeded => TrustStatus::NotNeeded,
            TrustState::Trusted => TrustStatus::Trusted,
            TrustState::Untrusted(_) => TrustStatus::NotTrusted,
        },
        findings: session.warnings.clone(),
    };
    let (text, reader) = match args.output {
        OutputForm::Text => (report.text(), OutputReader::Sampler),
        OutputForm::Json => {
            (serde_json::to_string(&report).expect("a report has text keys"), OutputReader::Whole)
        }
    };
    let exit = if report.sandbox == ReportedSandbox::None { ExitStatus::Failed } else { ExitStatus::Done };
    Ok(output::write_result(&text, reader).err().unwrap_or(exit))
}

/// What was found, as `--output json` prints it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DoctorReport {
    /// How much of the sandbox can be made.
    sandbox: ReportedSandbox,
    /// Who makes the namespaces that all of it takes; null if it isn't all.
    namespaces: Option<NamespaceSource>,
    /// The parts that were tried.
    parts: Vec<SandboxCheck>,
    /// How many processes commands may have.
    process_limits: String,
    /// What confines isolated tools, and decoders of PDF, pictures and notebooks.
    isolated_code: String,
    /// Programs that tools start.
    programs: Vec<ProgramCheck>,
    /// The directory to work in.
    workspace: String,
    /// Whether what its files would run or loosen counts.
    trust: TrustStatus,
    /// What is doubtful about settings, rules, hooks and trust.
    findings: Vec<String>,
}

/// How much of the sandbox can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, schemars(rename = "Made"))]
enum ReportedSandbox {
    /// All of it.
    Full,
    /// Reads are limited; no names are protected, and no hosts can be granted.
    Fallback,
    /// Nothing: commands are refused unless `--no-sandbox` is given.
    None,
}

impl From<SandboxLevel> for ReportedSandbox {
    fn from(level: SandboxLevel) -> ReportedSandbox {
        match level {
            SandboxLevel::Full => ReportedSandbox::Full,
            SandboxLevel::Fallback => ReportedSandbox::Fallback,
            SandboxLevel::Unavailable => ReportedSandbox::None,
        }
    }
}

/// Who makes the namespaces. What is promised is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, schemars(rename = "By"))]
enum NamespaceSource {
    /// This program.
    Haft,
    /// Bubblewrap, because this machine doesn't let this program.
    Bubblewrap,
}

impl From<NamespaceMaker> for NamespaceSource {
    fn from(maker: NamespaceMaker) -> NamespaceSource {
        match maker {
            NamespaceMaker::OwnProcess => NamespaceSource::Haft,
            NamespaceMaker::Bubblewrap => NamespaceSource::Bubblewrap,
        }
    }
}

/// A part that was tried.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Part"))]
struct SandboxCheck {
    /// What it is.
    part: String,
    /// Whether it works.
    works: bool,
    /// What was found.
    detail: String,
    /// The stack that is impossible without it; null if it is only an addition.
    needed_for: Option<ReportedSandbox>,
    /// What it takes to have it.
    advice: Option<String>,
}

impl From<SandboxPart> for SandboxCheck {
    fn from(part: SandboxPart) -> SandboxCheck {
        SandboxCheck {
            part: part.name.to_owned(),
            works: part.works,
            detail: part.detail,
            needed_for: part.needed_for.map(ReportedSandbox::from),
            advice: part.advice,
        }
    }
}

/// A program that tools start.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Program"))]
struct ProgramCheck {
    /// Its name.
    name: String,
    /// Where it is; null if it isn't.
    path: Option<String>,
    /// What goes without it.
    without: String,
}

impl ProgramCheck {
    fn find(name: &str, without: &str) -> ProgramCheck {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_program = |path: &PathBuf| {
            use std::os::unix::fs::PermissionsExt as _;
            Path::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(is_program);
        let path = found.map(|path| path.display().to_string());
        ProgramCheck { name: name.to_owned(), path, without: without.to_owned() }
    }
}

/// Whether what a workspace's files would run or loosen counts.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, schemars(rename = "Trust"))]
enum TrustStatus {
    /// It has nothing of that kind.
    NotNeeded,
    /// It does.
    Trusted,
    /// It doesn't; `haft trust` shows what there is.
    NotTrusted,
}

impl DoctorReport {
    fn text(&self) -> String {
        let mut text = String::new();
        let words = match self.sandbox {
            ReportedSandbox::Full if self.namespaces == Some(NamespaceSource::Bubblewrap) => {
                "full, through bubblewrap: commands can do no more than they are granted"
            }
            ReportedSandbox::Full => "full: commands can do no more than they are granted",
            ReportedSandbox::Fallback => {
                "fallback: reads are limited; no names are protected, no hosts can be granted"
            }
            ReportedSandbox::None => "none: commands are refused unless `--no-sandbox` is given",
        };
        let _ = writeln!(text, "sandbox    {words}");
        let width = self.parts.iter().map(|part| part.part.chars().count()).max().unwrap_or(0);
        for part in &self.parts {
            let mark = match (part.works, part.needed_for) {
                (true, _) => "yes",
                (false, Some(_)) => "NO",
                (false, None) => "no",
            };
            let _ = writeln!(text, "  {mark:3}  {:width$}  {}", part.part, one_line(&part.detail));
            for line in part.advice.iter().flat_map(|advice| advice.lines()) {
                let _ = writeln!(text, "       {:width$}  {line}", "");
            }
        }
        if self.sandbox != ReportedSandbox::None {
            let _ = writeln!(text, "\nbounds     {}\n           {BOUNDS}", one_line(&self.process_limits));
        }
        let code = one_line(&self.isolated_code);
        let _ = writeln!(
            text,
            "\ndecoders   PDF, pictures, notebooks and isolated tools run in\n           {code}"
        );
        let _ = writeln!(text, "\nprograms");
        for ProgramCheck { name, path, without } in &self.programs {
            let _ = match path {
                Some(path) => writeln!(text, "  yes  {name:8} {}", one_line(path)),
                None => writeln!(text, "  no   {name:8} {without}"),
            };
        }
        let trust = match self.trust {
            TrustStatus::NotNeeded => "nothing in it needs trust",
            TrustStatus::Trusted => "trusted",
            TrustStatus::NotTrusted => "not trusted; `haft trust` shows what is left out",
        };
        let _ = writeln!(text, "\nworkspace  {}\n           {trust}", one_line(&self.workspace));
        match self.findings.as_slice() {
            [] => text.push_str("\nsettings   nothing is doubtful about them\n"),
            findings => {
                text.push_str("\nsettings\n");
                for words in findings {
                    let _ = writeln!(text, "  {}", one_line(words));
                }
            }
        }
        text
    }
}
