//! State of a session that tools use in addition to files and processes: skills, scheduled prompts, active
//! settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::env::VariableLookup;
use haft::ports::ModeControl as _;
use haft_policy::gate::Policy;
use haft_policy::settings::SettingsPlaces;
use haft_policy::trust::workspace_key;
use haft_tools::SessionFolders;
use haft_tools::config::{Setting, SettingsSource};
use haft_tools::cron::CronTable;
use haft_tools::skill::{FILE, LinkPolicy, SkillSet};
use serde_json::json;

use crate::SessionOptions;
use crate::SessionPurpose;
use crate::loaded_settings::LoadedSettings;
use crate::run::memory::is_trusted;
use crate::settings_view;
use crate::text::one_line;

/// The folder of skills, in settings folders.
const SKILLS: &str = "skills";
/// The settings folders of a workspace.
const PROJECT: [&str; 2] = [".haft", ".claude"];
/// The folders of sessions, in the state folder.
const SESSIONS: &str = "sessions";
/// The folder of scheduled prompts, in the state folder.
const CRONS: &str = "cron";

/// Returns the user's skills, and those of a trusted workspace: they instruct a model, like memory files.
/// Reports skipped ones.
pub(super) fn load_skills(given: &LoadedSettings, common: &SessionOptions) -> SkillSet {
    let places = &given.places;
    let mut skills = SkillSet::new();
    for dir in [&places.config_dir, &places.claude_dir].into_iter().flatten() {
        skills = skills.with(&dir.join(SKILLS), LinkPolicy::Anywhere);
    }
    if is_trusted(places, common, &given.loaded.judgement, &given.loaded.inventory) {
        for folder in PROJECT {
            skills = skills.with(&places.cwd.join(folder).join(SKILLS), LinkPolicy::Inside);
        }
    } else {
        let names: Vec<String> = skills_of(places).iter().map(|file| one_line(&places.show(file))).collect();
        if !names.is_empty() {
            common.notices.warn(format!(
                "left out: {}; this workspace is not trusted, `haft trust` shows it",
                names.join(", ")
            ));
        }
    }
    for problem in skills.problems() {
        common.notices.warn(one_line(&format!("skill left out: {problem}")));
    }
    skills
}

/// Returns the skills of a workspace, which models read once it is trusted.
pub(crate) fn skills_of(places: &SettingsPlaces) -> Vec<PathBuf> {
    let folders = PROJECT.iter().filter_map(|folder| places.cwd.join(folder).join(SKILLS).read_dir().ok());
    let files = folders.flatten().filter_map(|entry| Some(entry.ok()?.path().join(FILE)));
    let mut files: Vec<PathBuf> = files.filter(|file| file.is_file()).collect();
    files.sort();
    files.truncate(2 * haft_tools::skill::SKILLS_MAX);
    files
}

/// Returns the store where sessions keep their task lists, plans and checkpoints, next to their journals.
pub(super) fn open_shelf(lookup: VariableLookup<'_>, purpose: SessionPurpose) -> SessionFolders {
    match haft::env::state_dir(lookup)
        .filter(|_| matches!(purpose, SessionPurpose::Run | SessionPurpose::Replay))
    {
        Some(state) => SessionFolders::at(&state.join(SESSIONS)),
        None => SessionFolders::default(),
    }
}

/// Returns the scheduled prompts, by the clock and time zone of the machine. They fire after
/// [`CronTable::begin`].
pub(super) fn open_crons(state: Option<&Path>, cwd: &Path) -> Arc<CronTable> {
    let table = CronTable::of_system().without_firing();
    Arc::new(match state {
        Some(state) => table.kept_in(&state.join(CRONS).join(format!("{}.json", workspace_key(cwd)))),
        None => table,
    })
}

/// The settings of a session, with its mode and rules as they are at each call.
pub(super) fn active_settings(given: LoadedSettings, policy: Policy) -> SettingsSource {
    Arc::new(move || {
        let mode = Setting {
            key: "permissions.mode".to_owned(),
            value: json!(policy.current().to_string()),
            from: "this session, now".to_owned(),
            left_out: None,
        };
        let mut all = vec![mode];
        all.extend(settings_view::in_force(&given));
        for (list, rule) in policy.session_rules() {
            let key = format!("permissions.{list}");
            if !all.iter().any(|known| known.key == key && known.value == json!(rule)) {
                let from = "this session: your answer, a hook or a skill".to_owned();
                all.push(Setting { key, value: json!(rule), from, left_out: None });
            }
        }
        all
    })
}
