//! Skills in real folders.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use haft::testing::TestCaller;
use haft::{ErrorKind, PermissionRules, ToolOutput};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

fn folder(skills: &[(&str, &str)]) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (name, text) in skills {
        put(temp.path(), name, text);
    }
    temp
}

fn put(dir: &Path, name: &str, text: &str) {
    fs::create_dir_all(dir.join(name)).unwrap();
    fs::write(dir.join(name).join(FILE), text).unwrap();
}

const COMMIT: &str = "---\nname: commit\ndescription: Commits what was changed.\nallowed-tools: Bash(git add *), Read\nargument-hint: [message]\n---\nSay $ARGUMENTS and $1, not $10 nor $x.\n";
const PLAIN: &str = "# Reviews code\n\nRead it twice.\n";

/// The rules that were granted.
type Granted = Arc<Mutex<Vec<String>>>;

async fn call(skills: SkillSet, granted: &Granted, input: Value) -> haft::ToolResult {
    let granted = granted.clone();
    let grants = move |rules: &[String]| {
        granted.lock().unwrap().extend_from_slice(rules);
        Ok(())
    };
    let tool = Skill::new(skills).with_grants(Arc::new(grants));
    let allowed = PermissionRules::new().allow("Skill").unwrap();
    let caller = TestCaller::new().tool(tool).engine(|engine| engine.permissions(allowed));
    caller.call("Skill", input).await
}

#[tokio::test]
async fn a_skill_is_listed_by_its_head_and_loaded_by_its_name() {
    let temp = folder(&[
        ("commit", COMMIT),
        ("review", PLAIN),
        ("secret", "---\ndisable-model-invocation: true\n---\nx"),
    ]);
    let skills = || SkillSet::new().with(temp.path(), LinkPolicy::Inside);
    let description = haft::tool::AnyTool::typed(Skill::new(skills())).unwrap().description().to_owned();
    assert!(
        description
            .ends_with("Skills:\n- commit [message]: Commits what was changed.\n- review: Reviews code"),
        "{description}"
    );
    assert!(!description.contains("git add") && !description.contains("Read it twice"), "{description}");
    let grants = Granted::default();
    let loaded = call(skills(), &grants, json!({"name": "/commit", "arguments": "fix it"})).await;
    let text = loaded.outcome().map(ToolOutput::to_text).unwrap();
    let dir = temp.path().join("commit");
    assert_eq!(
        text,
        format!(
            "The skill `commit` says what follows. Files that it names are in {}.\nUntil the user speaks again these run \
             without being asked about: Bash(git add *), Read.\n\nSay fix it and fix, not $10 nor $x.",
            dir.display()
        )
    );
    let own = format!("Read(/{}/**)", dir.display());
    assert_eq!(*grants.lock().unwrap(), [own.as_str(), "Bash(git add *)", "Read"]);
    let plain = call(skills(), &grants, json!({"name": "review", "arguments": "a.rs"})).await;
    let text = plain.outcome().map(ToolOutput::to_text).unwrap();
    assert!(text.ends_with("# Reviews code\n\nRead it twice.\n\nArguments: a.rs"), "{text}");
    for name in ["secret", "nothing"] {
        let result = call(skills(), &grants, json!({"name": name})).await;
        let words = result.error().unwrap().message().to_owned();
        assert!(words.contains(&format!("no skill `{name}`; there are `commit`, `review`")), "{words}");
    }
}

#[tokio::test]
async fn what_was_trusted_counts_and_what_is_said_is_new() {
    let temp = folder(&[("commit", COMMIT)]);
    let skills = SkillSet::new().with(temp.path(), LinkPolicy::Inside);
    // Somebody gives the skill more after it was trusted.
    put(temp.path(), "commit", &COMMIT.replace("Bash(git add *)", "Bash").replace("Say", "Shout"));
    let grants = Granted::default();
    let loaded = call(skills.clone(), &grants, json!({"name": "commit"})).await;
    assert!(loaded.outcome().unwrap().to_text().contains("Shout"));
    assert_eq!(grants.lock().unwrap()[1..], ["Bash(git add *)", "Read"]);
    fs::remove_dir_all(temp.path().join("commit")).unwrap();
    let gone = call(skills, &grants, json!({"name": "commit"})).await;
    assert!(gone.error().unwrap().message().contains("the skill `commit` can't be used"));
}

#[tokio::test]
async fn one_that_grants_something_is_asked_about() {
    let temp = folder(&[("commit", COMMIT), ("review", PLAIN)]);
    let skills = SkillSet::new().with(temp.path(), LinkPolicy::Inside);
    let caller = TestCaller::new().tool(Skill::new(skills));
    let granting = caller.call("Skill", json!({"name": "commit"})).await;
    assert_eq!(granting.error_kind(), Some(ErrorKind::Denied), "nobody can be asked: {granting:?}");
    assert!(!caller.call("Skill", json!({"name": "review"})).await.is_error());
}

#[test]
fn skills_that_can_not_be_used_are_told() {
    let temp = folder(&[("bad name!", "x"), ("good", PLAIN), ("big", &"x".repeat(300_000))]);
    let outside = folder(&[("other", "secret")]);
    fs::create_dir(temp.path().join("empty")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("other"), temp.path().join("linked")).unwrap();
    fs::create_dir(temp.path().join("dir")).unwrap();
    fs::create_dir(temp.path().join("dir").join(FILE)).unwrap();
    let skills = SkillSet::new()
        .with(temp.path(), LinkPolicy::Inside)
        .with(&temp.path().join("none"), LinkPolicy::Inside);
    let names: Vec<&str> = skills.iter().map(|skill| &*skill.name).collect();
    assert_eq!(names, ["good"]);
    let problems: Vec<String> = skills.problems().iter().map(|problem| problem.reason.clone()).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems.iter().any(|reason| reason.contains("leads out")), "{problems:?}");
    // The user's own may be anywhere; the first of a name counts.
    let more = folder(&[("good", "# Another"), ("more", PLAIN)]);
    std::os::unix::fs::symlink(outside.path().join("other"), more.path().join("linked")).unwrap();
    let skills = skills.with(more.path(), LinkPolicy::Anywhere);
    let names: Vec<&str> = skills.iter().map(|skill| &*skill.name).collect();
    assert_eq!(names, ["good", "linked", "more"]);
    assert!(skills.find("good").unwrap().path.starts_with(temp.path()));
}

/// Half of a head could grant more than was meant, or tell the model what was for nobody.
#[test]
fn a_skill_whose_head_is_broken_is_left_out_and_said() {
    let temp = folder(&[
        ("endless", "---\nname: endless\ndescription: x\n"),
        ("strange", "---\nname: strange\nthis is no key\n---\nText"),
        ("odd", "---\nname: odd\nallowed-tools: [Read\n---\nText"),
        ("fine", "---\nmetadata:\n  version: 1\nallowed-tools: Read, Bash(git commit *) Grep\n---\nText"),
    ]);
    let skills = SkillSet::new().with(temp.path(), LinkPolicy::Inside);
    let names: Vec<&str> = skills.iter().map(|skill| &*skill.name).collect();
    assert_eq!(names, ["fine"]);
    assert_eq!(skills.find("fine").unwrap().allowed_tools, ["Read", "Bash(git commit *)", "Grep"]);
    let problems: Vec<&str> = skills.problems().iter().map(|problem| &*problem.reason).collect();
    assert_eq!(
        problems,
        [
            "its head has no end; put a line `---` after the keys",
            "line 3: `allowed-tools` has a list without its `]`",
            "line 3: `this is no key` is no `key: value`",
        ]
    );
}

#[test]
fn many_skills_are_told_in_little_room() {
    let skills: Vec<(String, String)> = (0..100)
        .map(|at| (format!("skill-{at:03}"), format!("---\ndescription: {}\n---\n", "words ".repeat(100))))
        .collect();
    let skills: Vec<(&str, &str)> = skills.iter().map(|(name, text)| (&**name, &**text)).collect();
    let temp = folder(&skills);
    let tool = Skill::new(SkillSet::new().with(temp.path(), LinkPolicy::Inside));
    let listed = tool.listed();
    assert!(listed.chars().count() <= LISTED_CHARS_MAX, "{}", listed.len());
    assert!(
        listed.contains("skill-000") && listed.contains("skill-099") && listed.contains("words"),
        "{listed}"
    );
    assert!(Skill::new(SkillSet::new()).unavailable_reason().is_some());
}
