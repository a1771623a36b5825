//! `haft trust`: what a workspace would run or loosen, and the user's yes to exactly that.
//!
//! What is shown is what is recorded: one reading of the files serves both. A file that changes while the user thinks
//! is a change since the yes, and the next run says so. Without a clear yes (at a terminal, by `--yes`, or by the right
//! `--trust-hash`) nothing is recorded and the exit code is 1, so that a script never takes looking for trusting.

use std::fmt::Write as _;
use std::path::Path;

use haft_policy::rule::Rule;
use haft_policy::settings::{Layers, Places, Standing};
use haft_policy::trust::{self, Inventory, Judgement, Kind, Remembered, TrustStore, Untrusted};
use serde::Serialize;

use crate::args::{Common, Form, TrustArgs};
use crate::mcp::approvals;
use crate::output::{self, Reader, one_line};
use crate::run::memory;
use crate::{Exit, Usage, given, session, terminal};

/// How wide the column with what an item says is at most; what is longer moves its place to the right.
const TEXT_WIDTH_MAX: usize = 60;

pub(crate) fn run(args: &TrustArgs, common: &Common) -> Result<Exit, Usage> {
    let base = common.cwd.as_deref().unwrap_or(Path::new("."));
    let dir = args.dir.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir));
    if args.forget {
        return forget(&dir);
    }
    let places = given::places(&dir, &|name| std::env::var_os(name))?;
    let store = store(&places)?;
    understood(&places, common)?;
    let inventory = trust::inspect(&places).map_err(|error| Usage(error.to_string()))?;
    let memory = memory::of_project(&places).into_iter().chain(session::skills_of(&places));
    let memory: Vec<String> = memory.map(|file| places.show(&file)).collect();
    let mut judgement = match store.judge(&places.cwd, &inventory) {
        // What is there is for models to read, which needs a yes as well.
        Judgement::Nothing if !memory.is_empty() => match store.changed_since(&places.cwd, &inventory) {
            Some(_) => Judgement::Trusted,
            None => Judgement::Untrusted(Untrusted::Never),
        },
        judgement => judgement,
    };

    if args.output == Form::Text {
        // A yes is to what was seen, so all of it has to be.
        output::result(&text(&places, &inventory, &memory, &judgement), Reader::Whole).or_else(stop)?;
    }
    let wanted = !judgement.is_trusted() && inventory.obstacles().is_empty();
    if wanted && says_yes(args, common, &inventory) {
        store
            .trust(&places.cwd, &inventory)
            .map_err(|error| Usage(format!("the yes can't be kept: {error}")))?;
        judgement = Judgement::Trusted;
        output::say("trusted, until one of these changes");
    }
    if args.output == Form::Json {
        let shown = Shown::of(&places, &inventory, memory, &judgement);
        let line = serde_json::to_string(&shown).expect("it has text keys");
        output::result(&line, Reader::Whole).or_else(stop)?;
    }
    Ok(if judgement.is_trusted() { Exit::Done } else { Exit::Failed })
}

/// Every rule that counts once the workspace is trusted has to be understood, or nothing would run after the yes.
fn understood(places: &Places, common: &Common) -> Result<(), Usage> {
    let layers = Layers::read(places, &common.options().flags()).map_err(|error| Usage(error.to_string()))?;
    let rules = layers.merge(Standing::Trusted).permissions.rules;
    let bad: Vec<String> =
        rules.into_iter().filter_map(|rule| Rule::parse(rule).err()).map(|bad| bad.to_string()).collect();
    if bad.is_empty() { Ok(()) } else { Err(Usage(bad.join("\n"))) }
}

/// What was shown could not be written: nobody has seen it, so nobody can say yes to it.
fn stop(_: Exit) -> Result<(), Usage> {
    Err(Usage("nothing was trusted".to_owned()))
}

fn store(places: &Places) -> Result<TrustStore, Usage> {
    let state = places.state_dir.as_deref();
    let state = state.ok_or_else(|| {
        Usage("there is no folder to keep a yes in; set HAFT_STATE_DIR, or HOME, to an absolute path".into())
    })?;
    Ok(TrustStore::at(state))
}

/// Takes the yes and all answers back, also from a workspace that is gone or whose settings can't be read.
fn forget(dir: &Path) -> Result<Exit, Usage> {
    let lookup = |name: &str| std::env::var_os(name);
    // Where the workspace is doesn't matter for where a yes is kept.
    let places = given::places(Path::new("/"), &lookup)?;
    let dir = std::path::absolute(dir).map_err(|error| Usage(format!("`{}`: {error}", dir.display())))?;
    let forgotten = store(&places)?.forget(&dir);
    let forgotten = forgotten.map_err(|error| Usage(format!("the yes can't be taken back: {error}")))?;
    // Answers are as much a yes to what the workspace does as trust is: whoever takes that back starts anew.
    let state = places.state_dir.as_deref().expect("there is a store, so there is its folder");
    let answers = Remembered::at(state, &dir).forget();
    let answers = answers.map_err(|error| Usage(format!("your answers can't be forgotten: {error}")))?;
    let approvals = approvals::forget(state, &dir);
    let approvals =
        approvals.map_err(|error| Usage(format!("your approvals can't be forgotten: {error}")))?;
    let trust = if forgotten { "no longer trusted" } else { "it was not trusted" };
    let mut words = match answers {
        0 => trust.to_owned(),
        1 => format!("{trust}; 1 answer forgotten"),
        more => format!("{trust}; {more} answers forgotten"),
    };
    if approvals {
        words.push_str("; no server of it is approved any more");
    }
    output::say(&words);
    Ok(Exit::Done)
}

/// Whether the user says yes to exactly this, by a flag or at the terminal.
fn says_yes(args: &TrustArgs, common: &Common, inventory: &Inventory) -> bool {
    if let Some(given) = &common.trust_hash {
        let same = *given == inventory.hash().to_string();
        if !same {
            output::say(&format!(
                "not trusted: --trust-hash is not the hash of this workspace, {}",
                inventory.hash()
            ));
        }
        return same;
    }
    if args.yes {
        return true;
    }
    let asks = args.output == Form::Text && !common.non_interactive;
    match asks
        .then(|| terminal::confirm("trust this workspace with all of it?   y yes   n no   [n] "))
        .flatten()
    {
        Some(true) => true,
        Some(false) => {
            output::say("not trusted");
            false
        }
        None => {
            output::say(
                "not trusted: nobody was asked; --yes, or --trust-hash with the hash above, says yes",
            );
            false
        }
    }
}

/// All of it, what runs first.
fn text(places: &Places, inventory: &Inventory, memory: &[String], judgement: &Judgement) -> String {
    let mut text = format!("workspace  {}\n", one_line(&places.cwd.display().to_string()));
    if inventory.is_empty() && memory.is_empty() {
        text.push_str("trust      not needed: nothing in it runs or loosens anything\n");
        return text;
    }
    let _ = writeln!(text, "hash       {}\ntrust      {}", inventory.hash(), state(judgement).1);
    let changes = changes(judgement);
    if !changes.is_empty() {
        text.push_str("\nsince it was trusted\n");
        changes.iter().for_each(|change| text.push_str(&format!("  {change}\n")));
    }
    if !inventory.obstacles().is_empty() {
        text.push_str("\nin the way\n");
        inventory.obstacles().iter().for_each(|words| text.push_str(&format!("  {words}\n")));
    }
    let longest = inventory.items().iter().map(|item| item.text.chars().count()).max().unwrap_or(0);
    let width = longest.min(TEXT_WIDTH_MAX);
    let mut heading: Option<Kind> = None;
    for item in inventory.items() {
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

/// The state in one word, and in a line.
fn state(judgement: &Judgement) -> (State, String) {
    match judgement {
        Judgement::Nothing => (State::Nothing, "not needed".to_owned()),
        Judgement::Trusted => (State::Trusted, "yes, by you".to_owned()),
        Judgement::Untrusted(why) => {
            let words = match why {
                Untrusted::Never => "no".to_owned(),
                Untrusted::Changed(_) => "no longer: it has changed".to_owned(),
                Untrusted::OtherHash => "no: the hash is another".to_owned(),
                Untrusted::Obstacles(_) => "impossible".to_owned(),
                Untrusted::Damaged(words) => format!("no: the record can't be used ({})", one_line(words)),
            };
            (State::Untrusted, words)
        }
    }
}

fn changes(judgement: &Judgement) -> Vec<String> {
    match judgement {
        Judgement::Untrusted(Untrusted::Changed(changes)) => {
            changes.iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    }
}

/// What `--output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown {
    /// The workspace's real path.
    workspace: String,
    /// The hash over all items, for `--trust-hash`.
    hash: String,
    /// Whether what the items say counts.
    state: State,
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
enum State {
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
    kind: Kind,
    /// What it says.
    text: String,
    /// Where it stands.
    place: String,
    /// Of everything that it says, or of a file's bytes.
    digest: String,
}

impl Shown {
    fn of(places: &Places, inventory: &Inventory, memory: Vec<String>, judgement: &Judgement) -> Shown {
        let items = inventory.items().iter().map(|item| ShownItem {
            kind: item.kind,
            text: item.text.clone(),
            place: item.place.clone(),
            digest: item.digest.to_string(),
        });
        Shown {
            workspace: places.cwd.display().to_string(),
            hash: inventory.hash().to_string(),
            state: state(judgement).0,
            changes: changes(judgement),
            obstacles: inventory.obstacles().to_vec(),
            items: items.collect(),
            memory,
        }
    }
}
