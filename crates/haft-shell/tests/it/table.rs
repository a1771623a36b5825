//! Commands with their expected analysis, from `testdata/commands.txt` and `testdata/answers.txt`. Each
//! command that must not pass has a similar one that does.
//!
//! A section begins with `[properties] title`. Each line below is a command, or a command with the answer
//! to the question of the section. `␤` is a newline in it, and `<U+00A0>` a character.

use std::path::PathBuf;

use haft_shell::{
    CommandAnalysis, FileAccess, FileRedirect, ShellDirectories, StartMethod, SubCommand, analyse_command,
};

const COMMANDS: &str = include_str!("../../testdata/commands.txt");
const ANSWERS: &str = include_str!("../../testdata/answers.txt");

fn found(command: &str) -> CommandAnalysis {
    analyse_command(
        command,
        &ShellDirectories::new("/repo/app").with_home("/home/me").with_added("/data/set"),
    )
}

fn last(command: &str) -> SubCommand {
    found(command).commands.pop().unwrap()
}

/// Returns the texts of the innermost commands, in order, with `?` at the end if a part wasn't understood.
fn parts(command: &str) -> String {
    let found = found(command);
    let innermost = |one: &SubCommand| one.layers.last().map_or(one.text.clone(), |layer| layer.text.clone());
    let parts = found.commands.iter().map(innermost);
    parts.chain((!found.doubts.is_empty()).then(|| "?".to_owned())).collect::<Vec<_>>().join(" | ")
}

/// Formats an opened file: `|` between alternatives, `?` if it is unknown.
fn opened(redirect: &FileRedirect) -> String {
    let paths = redirect.paths.as_ref().map_or("?".to_owned(), |paths| show(paths, "|"));
    format!("{}{paths}", if redirect.access == FileAccess::Read { "<" } else { ">" })
}

fn show(paths: &[PathBuf], separator: &str) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(separator)
}

/// Returns whether a rule that denies a program matches some part of a command.
fn meets(command: &str, program: &str) -> bool {
    let commands = found(command).commands;
    let mut texts = commands.iter().flat_map(|command| command.texts_for_deny());
    texts.any(|text| text.strip_prefix(program).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
}

/// Returns whether a command has a property.
fn has(property: &str, command: &str) -> bool {
    let (property, program) = property.split_once('=').unwrap_or((property, "rm"));
    let (found, program) = (found(command), program.replace('_', " "));
    let allowed = || last(command).texts_for_allow();
    let first = || found.commands.first().and_then(|one| one.exact_only).is_some();
    match property {
        "doubt" => !found.doubts.is_empty(),
        "understood" => found.doubts.is_empty(),
        "reads" => found.is_read_only(),
        "changes" => !found.is_read_only(),
        // Whether a rule that denies `rm` denies it.
        "finds" => meets(command, &program),
        "clear" => !meets(command, &program),
        // A rule that denies the program denies it, or it asks.
        "noticed" => !found.doubts.is_empty() || meets(command, &program),
        // Whether a rule that allows `rm x` allows it behind this wrapper.
        "past" => allowed().contains(&"rm x".to_owned()),
        "beside" => !allowed().contains(&"rm x".to_owned()),
        // A rule that allows the program without the options before its sub-command doesn't allow this.
        "own" => allowed().iter().all(|text| !text.starts_with(&program)),
        "launched" => {
            let launched = |one: &haft_shell::CommandLayer| one.started == StartMethod::Launched;
            allowed() == [command] && last(command).layers.iter().any(launched)
        }
        // How much of a repository it writes.
        "level" => format!("{:?}", found.repository_use().level) == program,
        // Whether it destroys something besides the files that it names.
        "destroys" => last(command).destroys.is_some() && last(command).read_only.is_err(),
        "spares" => last(command).destroys.is_none(),
        "critical" => found.critical().is_some(),
        "uncritical" => found.critical().is_none(),
        "unknown-last" => last(command).effects.is_none_or(|effects| effects.unknown),
        // Whether only an exact rule allows the first or the last command.
        "exact" => first(),
        "free" => !first(),
        "exact-last" => last(command).exact_only.is_some(),
        "free-last" => last(command).exact_only.is_none(),
        // Only the command itself is started, and a rule with a wildcard allows it.
        "nothing" => {
            let alone = matches!(&found.commands[..], [one] if one.layers.len() == 1);
            found.doubts.is_empty() && alone && !first()
        }
        _ => panic!("no property `{property}`"),
    }
}

/// Converts a line of a table to text.
pub(crate) fn read(line: &str) -> String {
    let mut text = line.replace('␤', "\n").replace('␉', "\t");
    while let Some((front, rest)) = text.split_once("<U+") {
        let (code, behind) = rest.split_once('>').unwrap();
        let sign = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
        text = format!("{front}{sign}{behind}");
    }
    text
}

/// Returns the answer to a question about a command.
fn answer(question: &str, command: &str) -> String {
    let found = found(command);
    let effects = || found.commands.iter().flat_map(|one| &one.effects);
    let join = |parts: Vec<String>| parts.join(" ");
    match question {
        "parts" => parts(command),
        "allowed-by" => last(command).texts_for_allow().join(" / "),
        "redirections" => join(found.redirects.iter().map(opened).collect()),
        "repositories" => show(&found.repository_use().folders, " "),
        "effects" => last(command).effects.map_or("?".to_owned(), |effects| effects.to_string()),
        "writes" => {
            let written = effects().flat_map(|effects| &effects.writes);
            join(written.map(|set| set.path.display().to_string()).collect())
        }
        "reads" => {
            let first = found.commands[0].effects.iter().flat_map(|effects| &effects.reads);
            join(first.map(|set| set.path.display().to_string()).collect())
        }
        // With `?` if there may be more.
        "hosts" => {
            let reached = effects().flat_map(|effects| &effects.reaches).map(|reach| reach.host.clone());
            let unknown = found.commands.iter().any(|one| one.reaches_unknown().is_some());
            join(reached.chain(unknown.then(|| "?".to_owned())).collect())
        }
        _ => panic!("no question `{question}`"),
    }
}

/// Returns the lines of a table with the head of their section.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut section = "";
    table.lines().filter(|line| !line.is_empty()).filter_map(move |line| {
        let head = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(head, _)| head);
        match head.filter(|head| head.starts_with(|c: char| c.is_ascii_lowercase())) {
            Some(head) => section = head,
            None => return Some((section, line)),
        }
        None
    })
}

#[test]
fn commands_have_the_properties_of_their_section() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for (section, line) in rows(COMMANDS) {
        let command = read(line);
        let missing = section.split(' ').filter(|property| !has(property, &command));
        wrong.extend(missing.map(|property| format!("`{command}` isn't `{property}`")));
        checked += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked > 1_700, "{checked} commands");
}

#[test]
fn questions_about_commands_are_answered() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for (question, line) in rows(ANSWERS) {
        let (command, expected) = line.rsplit_once(" →").unwrap();
        let (command, expected) = (read(command), read(expected.trim_start()));
        let given = answer(question, &command);
        let fits = if question == "reads" {
            given.split(' ').any(|file| file == expected)
        } else {
            given == expected
        };
        if !fits {
            wrong.push(format!("{question} of `{command}`: `{given}` instead of `{expected}`"));
        }
        // A command that writes never counts as read-only.
        if question == "writes" && !expected.is_empty() && has("reads", &command) {
            wrong.push(format!("`{command}` only looks"));
        }
        checked += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked > 300, "{checked} answers");
}

#[test]
fn what_is_held_is_a_command_within_another() {
    let held = found("tar --to-command='rm x' -xf a").commands.remove(1);
    assert_eq!((held.within, held.layers[0].started), (Some(0), StartMethod::Held));
}

#[test]
fn what_may_change_while_it_is_read_runs_alone() {
    for command in ["ln a b", "mv a b", "cp -l a b", "cp -r a b"] {
        assert_eq!(last(command).effects.unwrap().claims.concurrency_safe, Some(false), "{command}");
        assert_eq!(found(command).effects().claims.concurrency_safe, Some(false), "{command}");
    }
    assert_eq!(last("cp a b").effects.unwrap().claims.concurrency_safe, None);
}

#[test]
fn effects_of_the_whole_command() {
    for (command, effects) in [
        ("cat a > b && make < c", "reads c · writes b · runs cat a · runs make"),
        ("echo x > /dev/tcp/x.io/80", "runs echo x · changes x.io"),
        ("cat < /dev/tcp/x.io/80", "runs cat · changes x.io"),
        ("exec 3<> /dev/udp/x.io/53", "runs exec · changes x.io"),
        ("a &> /dev/tcp/x.io/1", "runs a · changes x.io"),
    ] {
        assert_eq!(found(command).effects().to_string(), effects, "{command}");
        assert!(!found(command).effects().unknown && !found(command).is_read_only(), "{command}");
    }
    for command in ["a > $x", "$x", "a (", "a > /dev/tcp/$x/80"] {
        assert!(found(command).effects().unknown, "{command}");
    }
    assert_eq!(found("a > /dev/tcp").redirects[0].host(), None);
    // A pattern without a folder stays in the directory, and reads all of it.
    assert_eq!(last("cat *.rs").effects.unwrap().reads, [haft::effects::PathSet::subtree(".")]);
}

#[test]
fn shown_part_by_part() {
    let lines: Vec<_> = found("sh -c 'ls; rm -rf /' > log && $x")
        .lines()
        .into_iter()
        .map(|line| format!("{}{}: {}", "  ".repeat(line.depth), line.text, line.note))
        .collect();
    assert_eq!(
        lines,
        [
            "sh -c 'ls; rm -rf /': runs what it is given; only an exact rule allows it",
            "  ls: read-only",
            "  rm -rf /: removes `/`; always asks",
            "$x: `it` isn't known to change nothing",
            "> log: writes log",
            "not understood: which program `$x` starts is known only when it runs",
        ]
    );
}
