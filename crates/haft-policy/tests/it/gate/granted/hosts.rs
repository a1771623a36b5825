//! Hosts that a running command requests: rules for hosts, the mode and the user decide, and never a rule
//! for the command.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft::ToolResult;
use haft::future::BoxFuture;
use haft::ports::{
    ApprovalAnswer, CapturedOutput, EnforcedRules, HostAnswer, HostGroup, ProcessError, ProcessExit,
    ProcessOutcome, ProcessRequest, Processes, WantedHost,
};
use serde_json::json;

use super::{Machine, Walled};

/// A child process that requests these hosts in sequence, and fails if one was denied.
#[derive(Default)]
struct AskingChild {
    wanted: Mutex<Vec<WantedHost>>,
    answers: Mutex<Vec<HostAnswer>>,
    /// The number of child processes.
    started: AtomicUsize,
}

impl Processes for AskingChild {
    fn confines(&self) -> bool {
        true
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        Box::pin(async move {
            self.started.fetch_add(1, Ordering::SeqCst);
            let requests = request.child_requests.expect("a confined command can ask for hosts");
            let wanted = self.wanted.lock().unwrap().clone();
            let mut answers = Vec::new();
            for host in wanted {
                answers.push(requests.ask(host).await);
            }
            let is_refused = |answer: &HostAnswer| matches!(answer, HostAnswer::Refused(_));
            let code = i32::from(answers.iter().any(is_refused));
            *self.answers.lock().unwrap() = answers;
            Ok(ProcessOutcome {
                exit: ProcessExit::Code(code),
                stdout: CapturedOutput::default(),
                stderr: CapturedOutput::default(),
                refused: Vec::new(),
                held: Vec::new(),
            })
        })
    }
}

/// A session whose commands request hosts.
struct Asking {
    walled: Walled,
    child: Arc<AskingChild>,
}

const REGISTRIES: [&str; 3] = ["pypi.org", "files.pythonhosted.org", "registry.npmjs.org"];

fn host(name: &str) -> WantedHost {
    WantedHost { host: name.into(), port: 443, port_rule: None, group: None }
}

fn registry(name: &str) -> WantedHost {
    let hosts = REGISTRIES.map(str::to_owned).to_vec();
    let group = HostGroup { name: "package registries".into(), note: "they take uploads".into(), hosts };
    WantedHost { group: Some(group), ..host(name) }
}

impl Asking {
    fn open(machine: &Arc<Machine>, rules: &str, mode: &str) -> Asking {
        let walled = Walled::open(machine, rules, mode, false);
        let child = Arc::<AskingChild>::default();
        let processes: Arc<dyn Processes> = child.clone();
        let caller = walled.caller.engine(|engine| engine.ports(|ports| ports.processes = Some(processes)));
        Asking { walled: Walled { caller, ..walled }, child }
    }

    /// Runs a command that requests these hosts.
    async fn run(&self, hosts: impl IntoIterator<Item = WantedHost>) -> (Vec<HostAnswer>, ToolResult) {
        *self.child.wanted.lock().unwrap() = hosts.into_iter().collect();
        let result = self.walled.caller.call("Bash", json!({"command": "make install"})).await;
        assert!(self.child.started.swap(0, Ordering::SeqCst) == 1, "{result:?}");
        (std::mem::take(&mut *self.child.answers.lock().unwrap()), result)
    }

    /// Returns the prompts about hosts so far.
    fn questions(&self) -> Vec<haft::ports::ApprovalRequest> {
        let all = self.walled.user.asked();
        all.into_iter().filter(|approval| approval.input.get("host").is_some()).collect()
    }
}

fn granted(hosts: &[&str]) -> HostAnswer {
    HostAnswer::Granted(hosts.iter().map(|host| (*host).to_owned()).collect())
}

fn refusal(answer: &HostAnswer) -> &str {
    match answer {
        HostAnswer::Refused(why) => why,
        granted => panic!("{granted:?}"),
    }
}

/// The mode and the rules for hosts, with `Bash` allowed wherever the mode respects that.
#[tokio::test]
async fn the_mode_and_rules_for_hosts_decide() {
    let machine = Machine::new();
    let (allow, deny) = ("+WebFetch(domain:other.example)", "-WebFetch(domain:other.example)");
    let ask = "?WebFetch(domain:other.example)";
    // Mode, rule, number of prompts, and the text of the denial; empty if it is granted.
    for (mode, rule, questions, refused) in [
        ("default", "", 1, ""),
        ("default", allow, 0, ""),
        ("default", deny, 0, "other.example` was denied by rule"),
        ("default", ask, 1, ""),
        ("acceptEdits", "", 1, ""),
        ("auto", "", 1, ""),
        ("auto", allow, 0, ""),
        ("auto", deny, 0, "was denied by rule"),
        ("dontAsk", "", 0, "to allow it: allow rule `WebFetch(domain:other.example)`"),
        ("dontAsk", allow, 0, ""),
        ("bypassPermissions", "", 0, "to allow it: allow rule `WebFetch(domain:other.example)`"),
        ("bypassPermissions", allow, 0, ""),
        ("bypassPermissions", deny, 0, "was denied by rule"),
        ("bypassPermissions", ask, 1, ""),
    ] {
        let asking = Asking::open(&machine, &format!("+Bash; {rule}"), mode);
        let (answers, _) = asking.run([host("other.example")]).await;
        assert_eq!(asking.questions().len(), questions, "{mode} {rule}: {answers:?}");
        match refused {
            "" => assert_eq!(answers, [granted(&["other.example"])], "{mode} {rule}"),
            words => assert!(refusal(&answers[0]).contains(words), "{mode} {rule}: {answers:?}"),
        }
    }
}

#[tokio::test]
async fn one_question_is_for_all_registries_and_an_answer_for_always_keeps_their_rules() {
    let machine = Machine::new();
    let asking = Asking::open(&machine, "+Bash; -WebFetch(domain:registry.npmjs.org)", "default");
    asking.walled.user.now_says(ApprovalAnswer::Always);
    let (answers, _) = asking.run([registry("pypi.org")]).await;
    // Without the host that a rule denies.
    assert_eq!(answers, [granted(&["pypi.org", "files.pythonhosted.org"])]);
    let questions = asking.questions();
    let [question] = &*questions else { panic!("{questions:?}") };
    assert!(question.warnings().is_empty());
    let description = question.description.clone().unwrap();
    assert!(
        description.contains("`$ make install` is running and waits for `pypi.org`, port 443")
            && description.contains("one of the package registries; they take uploads"),
        "{description}"
    );
    assert_eq!(
        question.lasting_rules,
        ["WebFetch(domain:pypi.org)", "WebFetch(domain:files.pythonhosted.org)"]
    );
    // In this session, and in the next one.
    let (answers, _) = asking.run([registry("files.pythonhosted.org")]).await;
    assert_eq!((answers, asking.questions().len()), (vec![granted(&["files.pythonhosted.org"])], 1));
    let next = Asking::open(&machine, "+Bash", "default");
    let (answers, _) = next.run([registry("pypi.org")]).await;
    assert_eq!((answers, next.questions().len()), (vec![granted(&["pypi.org"])], 0));
}

#[tokio::test]
async fn an_answer_for_the_session_ends_with_it_and_one_for_the_call_with_the_call() {
    let machine = Machine::new();
    for (answer, again) in [(ApprovalAnswer::Once, 1), (ApprovalAnswer::Session, 0)] {
        let asking = Asking::open(&machine, "+Bash", "default");
        asking.walled.user.now_says(answer.clone());
        for questions in [1, 1 + again] {
            let (answers, _) = asking.run([registry("pypi.org")]).await;
            assert!(matches!(answers[..], [HostAnswer::Granted(_)]), "{answers:?}");
            assert_eq!(asking.questions().len(), questions, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_call_asks_three_times_at_most() {
    let asking = Asking::open(&Machine::new(), "+Bash; +WebFetch(domain:e.example)", "default");
    let wanted = ["a.example", "b.example", "c.example", "d.example", "e.example"].map(host);
    let (answers, _) = asking.run(wanted.clone()).await;
    assert_eq!(asking.questions().len(), 3);
    assert!(refusal(&answers[3]).contains("asked about hosts 3 times during this call"), "{answers:?}");
    assert_eq!(answers[4], granted(&["e.example"]), "a rule needs no question");
    let (answers, _) = asking.run(wanted.into_iter().skip(3).take(1)).await;
    assert_eq!(answers, [granted(&["d.example"])], "the next call asks anew");
}

/// Rules have no ports, so an answer opens another port, an address or this machine for the call alone.
#[tokio::test]
async fn a_port_or_an_address_is_for_the_call_alone() {
    let asking = Asking::open(&Machine::new(), "+Bash; +WebFetch(domain:git.example)", "default");
    asking.walled.user.now_says(ApprovalAnswer::Always);
    for (name, port, rule) in [
        ("git.example", 22, "git.example:22"),
        ("10.0.0.7", 443, "10.0.0.7"),
        ("localhost", 80, "localhost:80"),
    ] {
        let wanted = WantedHost { host: name.into(), port, port_rule: Some(rule.into()), group: None };
        for _ in 0..2 {
            let (answers, _) = asking.run([wanted.clone()]).await;
            assert_eq!(answers, [granted(&[name])]);
        }
        let questions = asking.questions();
        let last = questions.last().unwrap();
        assert!(
            last.lasting_rules.is_empty() && last.proposed_rule.as_ref().unwrap().contains(rule),
            "{last:?}"
        );
    }
    assert_eq!(asking.questions().len(), 6);
}

#[tokio::test]
async fn a_no_is_told_and_ends_the_turn_of_a_command_that_fails_by_it() {
    let asking = Asking::open(&Machine::new(), "+Bash", "default");
    asking.walled.user.now_says(ApprovalAnswer::NoBecause("not this one".into()));
    let (answers, result) = asking.run([host("other.example")]).await;
    assert_eq!(refusal(&answers[0]), "the user said no to `other.example`: not this one");
    assert!(result.is_error() && !result.ends_turn());
    asking.walled.user.now_says(ApprovalAnswer::No);
    let (answers, result) = asking.run([host("other.example")]).await;
    assert!(refusal(&answers[0]).starts_with("the user said no to `other.example` and ended the turn"));
    assert!(result.is_error() && result.ends_turn());
}
