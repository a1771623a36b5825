//! The command walker: no line makes it panic, what it finds is bounded and hangs together, and nothing that
//! stands beside or around a line hides a command.
#![no_main]

use haft_shell::{CommandAnalysis, COMMANDS_MAX, ShellDirectories, analyse_command};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    let place = ShellDirectories::new("/repo").with_home("/home/me");
    let found = analyse_command(line, &place);
    consistent(&found);
    // What bash goes on to read as the same word, or as the body of a document, is no second command.
    let open = line.ends_with('\\') || line.contains("<<");
    let long = line.len() > 5_000 || found.commands.len() + 1 >= COMMANDS_MAX;
    if open || long || !found.doubts.is_empty() {
        return;
    }
    for more in [format!("{line}\nrm x"), format!("rm x\n{line}"), format!("true; {{ rm x; }}\n{line}")] {
        let more = analyse_command(&more, &place);
        consistent(&more);
        let runs_rm =
            more.commands.iter().any(|command| command.texts_for_deny().iter().any(|text| text == "rm x"));
        assert!(runs_rm || !more.doubts.is_empty(), "`rm x` is hidden by {line:?}");
        assert!(!more.is_read_only(), "{line:?}");
    }
    let around = analyse_command(&format!("(\n{line}\n)"), &place);
    consistent(&around);
    if around.doubts.is_empty() {
        for command in &found.commands {
            let still = around.commands.iter().any(|other| other.text == command.text);
            assert!(still, "`{}` of {line:?} is hidden by a subshell", command.text);
        }
    }
});

fn consistent(found: &CommandAnalysis) {
    assert!(found.commands.len() <= COMMANDS_MAX, "{}", found.commands.len());
    for (index, command) in found.commands.iter().enumerate() {
        assert!(command.within.is_none_or(|within| within < found.commands.len() && within != index));
        assert!(!command.texts_for_deny().is_empty());
        assert!(!command.layers.is_empty() || !command.assignments.is_empty(), "{command:?}");
        let _ = (command.texts_for_allow(), command.program(), command.argv());
    }
    if found.is_read_only() {
        assert!(found.doubts.is_empty() && found.critical().is_none());
    }
    let _ = found.effects();
    assert!(found.lines().len() <= 4 * COMMANDS_MAX);
}
