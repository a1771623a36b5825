//! `haft trust`: what a workspace would run or loosen, and the user's yes to exactly that.
//!
//! What is shown is what is recorded: one reading of the files serves both. A file that changes while the
//! user thinks is a change since the yes, and the next run says so. Without a clear yes (at a terminal, by
//! `--yes`, or by the right `--trust-hash`) nothing is recorded and the exit code is 1, so that a script
//! never takes looking for trusting.

use std::fmt::Write as _;
use std::path::Path;

use haft_session::SessionEnvironment;
use haft_session::trust::{TrustItemKind, TrustState, UntrustedReason, WorkspaceTrust};
use serde::Serialize;

use crate::args::{CommonArgs, OutputForm, TrustArgs};
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError, terminal};

/// How wide the column with what an item says is at most; what is longer moves its place to the right.
const TEXT_WIDTH_MAX: usize = 60;

pub(crate) fn run(args: &TrustArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let base = common.cwd.as_deref().unwrap_or(Path::new("."));
    let dir = args.dir.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir));
    if args.forget {
        return forget_trust(&dir);
    }
    let mut trust = WorkspaceTrust::inspect(&dir, &common.options())?;
    if args.output == OutputForm::Text {
        // A yes is to what was seen, so all of it has to be.
        output::write_result(&render_trust(&trust), OutputReader::Whole).or_else(stop_unshown)?;
    }
    let wanted = !trust.is_trusted() && trust.obstacles().is_empty();
    if wanted && says_yes(args, common, &trust) {
        trust.grant()?;
        output::print_line("trusted, until one of these changes");
    }
    if args.output == OutputForm::Json {
        let line = serde_json::to_string(&TrustReport::new(&trust)).expect("it has text keys");
        output::write_result(&line, OutputReader::Whole).or_else(stop_unshown)?;
    }
    Ok(if trust.is_trusted() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// What was shown could not be written: nobody has seen it, so nobody can say yes to it.
fn stop_unshown(_: ExitStatus) -> Result<(), UsageError> {
    Err(UsageError("nothing was trusted".to_owned()))
}

/// Takes the yes and all answers back, also from a workspace that is gone or whose settings can't be read.
fn forget_trust(dir: &Path) -> Result<ExitStatus, UsageError> {
    let forgotten = WorkspaceTrust::forget(dir, &SessionEnvironment::default())?;
    let trust = if forgotten.was_trusted { "no longer trusted" } else { "it was not trusted" };
    let mut words = match forgotten.answers {
        0 => trust.to_owned(),
        1 => format!("{trust}; 1 answer forgotten"),
        more => format!("{trust}; {more} answers forgotten"),
    };
    if forgotten.approvals {
        words.push_str("; no server of it is approved any more");
    }
    output::print_line(&words);
    Ok(ExitStatus::Done)
}

/// Whether the user says yes to exactly this, by a flag or at the terminal.
fn says_yes(args: &TrustArgs, common: &CommonArgs, trust: &WorkspaceTrust) -> bool {
    if let Some(given) = &common.trust_hash {
        let same = *given == trust.hash();
        if !same {
            output::print_line(&format!(
                "not trusted: --trust-hash is not the hash of this workspace, {}",
                trust.hash()
            ));
        }
        return same;
    }
    if args.yes {
        return true;
    }
    let asks = args.output == OutputForm::Text && !common.non_interactive;
    match asks
        .then(|| terminal::ask_confirmation("trust this workspace with all of it?   y yes   n no   [n] "))
        .flatten()
    {
        Some(true) => true,
        Some(false) => {
            output::print_line("not trusted");
            false
        }
        None => {
            output::print_line(
                "not trusted: nobody was asked; --yes, or --trust-hash with the hash above, says yes",
            );
            false
        }
    }
}

/// All of it, what runs first.
fn render_trust(trust: &WorkspaceTrust) -> String {
    let (items, memory) = (trust.items(), trust.memory());
    let mut text = format!("workspace  {}\n", one_line(&trust.workspace().display().to_string()));
    if items.is_empty() && trust.obstacles().is_empty() && memory.is_empty() {
        text.push_str("trust      not needed: nothing in it runs or loosens anything\n");
        return text;
    }
    let _ = writeln!(text, "hash       {}\ntrust      {}", trust.hash(), describe_state(&trust.state()));
    let changes = describe_changes(trust);
    if !changes.is_empty() {
        text.push_str("\nsince it was trusted\n");
        changes.iter().for_each(|change| text.push_str(&format!("  {change}\n")));
    }
    if !trust.obstacles().is_empty() {
        text.push_str("\nin the way\n");
        trust.obstacles().iter().for_each(|words| text.push_str(&format!("  {words}\n")));
    }
    let longest = items.iter().map(|item| item.text.chars().count()).max().unwrap_or(0);
    let width = longest.min(TEXT_WIDTH_MAX);
    let mut heading: Option<TrustItemKind> = None;
    for item in &items {
        if heading != Some(item.kind) {
            heading = Some(item.kind);
            let _ = writeln!(text, "\n{}", item.kind.words().1);
        }
        let place = if item.place == item.text { "" } else { &item.place };
        text.push_str(format!("  {:width$}   {place}", item.text).trim_end());
        text.push('\n');
    }
    if !memory.is_empty() {
        text.push_str("\nread by models, as long as the workspace is trusted\n");
        memory.iter().for_each(|file| text.push_str(&format!("  {}\n", one_line(file))));
    }
    text
}

/// The state in a line.
fn describe_state(state: &TrustState) -> String {
    let reason = match state {
        TrustState::NotNeeded => return "not needed".to_owned(),
        TrustState::Trusted => return "yes, by you".to_owned(),
        TrustState::Untrusted(reason) => reason,
    };
    match reason {
        UntrustedReason::NeverTrusted => "no".to_owned(),
        UntrustedReason::Changed(_) => "no longer: it has changed".to_owned(),
        UntrustedReason::OtherHash => "no: the hash is another".to_owned(),
        UntrustedReason::Obstacles => "impossible".to_owned(),
        UntrustedReason::DamagedRecord(why) => format!("no: the record can't be used ({})", one_line(why)),
    }
}

/// What changed since the user said yes.
fn describe_changes(trust: &WorkspaceTrust) -> Vec<String> {
    match trust.state() {
        TrustState::Untrusted(UntrustedReason::Changed(changes)) => changes,
        _ => Vec::new(),
    }
}

/// What `--output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TrustReport {
    /// The workspace's real path.
    workspace: String,
    /// The hash over all items, for `--trust-hash`.
    hash: String,
    /// Whether what the items say counts.
    state: ReportedTrust,
    /// What changed since the user said yes, in words.
    changes: Vec<String>,
    /// Why it can't be trusted, in words.
    obstacles: Vec<String>,
    /// What the workspace would run or loosen.
    items: Vec<ShownItem>,
    /// Files that models read once it is trusted; they may change.
    memory: Vec<String>,
}

/// Whether what a workspace names counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(rename = "State"))]
enum ReportedTrust {
    /// It names nothing.
    Nothing,
    /// The user said yes to exactly this.
    Trusted,
    /// It doesn't count.
    Untrusted,
}

/// One thing that a workspace would run or loosen.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShownItem {
    /// What it is, such as `hook` or `allow-rule`.
    #[cfg_attr(test, schemars(with = "String"))]
    kind: TrustItemKind,
    /// What it says.
    text: String,
    /// Where it stands.
    place: String,
    /// Of everything that it says, or of a file's bytes.
    digest: String,
}

impl TrustReport {
    fn new(trust: &WorkspaceTrust) -> TrustReport {
        let items = trust.items().into_iter().map(|item| ShownItem {
            kind: item.kind,
            text: item.text,
            place: item.place,
            digest: item.digest,
        });
        TrustReport {
            workspace: trust.workspace().display().to_string(),
            hash: trust.hash(),
            state: match trust.state() {
                TrustState::NotNeeded => ReportedTrust::Nothing,
                TrustState::Trusted => ReportedTrust::Trusted,
                TrustState::Untrusted(_) => ReportedTrust::Untrusted,
            },
            changes: describe_changes(trust),
            obstacles: trust.obstacles().to_vec(),
            items: items.collect(),
            memory: trust.memory(),
        }
    }
}
