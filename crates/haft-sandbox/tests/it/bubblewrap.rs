//! The same sandbox where bubblewrap makes the user namespace, because nobody else may.
//!
//! Where it isn't installed these tests are skipped, and say so.

use std::process::Command;
use std::sync::Arc;

use haft::ports::{ProcessExit, Processes as _};
use haft_sandbox::testing::{MAKER, without_own_namespaces};
use haft_sandbox::{
    ProfileConfig, Sandbox, SandboxConfig, SandboxStack, UserNamespaceMaker, maker_of, probe, stack_of,
};

use crate::confined::{Ground, HELPER, said};
use crate::lives::{count, mark};
use crate::{skipped, until};

const SKIPPED: &str = "bubblewrap isn't installed here, so nothing is tried through it";

pub(crate) fn is_installed() -> bool {
    let places = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];
    places.iter().any(|path| std::path::Path::new(path).exists())
}

fn test_program(arguments: &[&str]) -> (bool, String) {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(arguments).env(MAKER, "bubblewrap").output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs these tests of this program again, with bubblewrap as the maker of every full sandbox.
fn assert_pass_through_bubblewrap(filters: &[&str]) {
    if !is_installed() {
        return skipped(SKIPPED);
    }
    if std::env::var_os(MAKER).is_some() {
        return skipped("this is such a run already");
    }
    let count = |printed: &str, end: &str| printed.lines().filter(|line| line.ends_with(end)).count();
    let (_, listed) = test_program(&[filters, &["--list"]].concat());
    let (success, printed) = test_program(filters);
    assert!(success, "{printed}");
    let passed = count(&printed, " ... ok");
    let ignored = printed.lines().filter(|line| line.contains(" ... ignored")).count();
    assert!(passed > 0 && passed + ignored == count(&listed, ": test"), "{printed}");
}

/// One test for each module whose tests let children loose in the full sandbox, so that they run side by
/// side.
macro_rules! pass_through_bubblewrap {
    ($($name:ident: $filters:expr,)*) => {
        $(
            #[test]
            fn $name() {
                assert_pass_through_bubblewrap(&$filters);
            }
        )*
    };
}

pass_through_bubblewrap! {
    escapes_fail_through_bubblewrap: ["escapes::"],
    evidence_holds_through_bubblewrap: ["evidence::"],
    faults_hold_through_bubblewrap: ["faults::"],
    the_full_sandbox_holds_through_bubblewrap: ["full::"],
    isolated_tools_hold_through_bubblewrap: ["isolated::"],
    lives_hold_through_bubblewrap: ["lives::"],
    profiles_hold_through_bubblewrap: ["profile::", "--skip", "tool_chain_"],
    tool_chains_work_through_bubblewrap: ["profile::tool_chain_"],
    repositories_hold_through_bubblewrap: ["repositories::"],
    sessions_hold_through_bubblewrap: ["session::"],
}

fn config(ground: &Ground) -> SandboxConfig {
    let mut profile = ProfileConfig::new(
        ground.workspace(),
        ground.at("temp"),
        ground.at("caches"),
        haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
    );
    profile.home = Some(ground.at("home"));
    std::fs::create_dir_all(ground.at("home")).unwrap();
    SandboxConfig::new(profile).unwrap().with_helper(HELPER).with_variables(std::env::vars_os())
}

/// On a thread of its own, because what is taken from it is never given back.
fn where_we_may_make_none<T: Send>(then: impl FnOnce() -> T + Send) -> T {
    let restricted = || {
        without_own_namespaces();
        then()
    };
    std::thread::scope(|scope| scope.spawn(restricted).join().unwrap())
}

/// A machine that lets bubblewrap make user namespaces and nobody else: it is used, without being asked for.
#[test]
fn where_only_bubblewrap_can_it_is_used() {
    if !is_installed() {
        return skipped(SKIPPED);
    }
    where_we_may_make_none(|| {
        let ground = Ground::new();
        let refused = Sandbox::start(config(&ground).with_maker(UserNamespaceMaker::Ourselves)).unwrap();
        assert_eq!(
            (refused.stack(), refused.maker()),
            (SandboxStack::Fallback, None),
            "the restriction is real"
        );
        let sandbox = Sandbox::start(config(&ground)).unwrap();
        assert_eq!(
            (sandbox.stack(), sandbox.maker()),
            (SandboxStack::Full, Some(UserNamespaceMaker::Bubblewrap))
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let script =
            "grep -c . /proc/net/dev; grep CapEff /proc/self/status; echo x > made && echo made; echo $$";
        let outcome = runtime.block_on(sandbox.run(ground.bash(script))).unwrap();
        assert_eq!(said(&outcome), "Code(0) 3\nCapEff:\t0000000000000000\nmade\n2\n");

        let found = probe(Some(HELPER.as_ref()));
        assert_eq!(stack_of(&found), SandboxStack::Full, "{found:?}");
        assert_eq!(maker_of(&found), Some(UserNamespaceMaker::Bubblewrap), "{found:?}");
        let own = found.iter().find(|part| part.part == "user namespace").unwrap();
        assert!(!own.works && own.advice.is_none(), "{own:?}");
    });
}

/// Bubblewrap waits outside for the helper to end. Killed itself, it takes everything along, and the next
/// call is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_bubblewrap_is_noticed() {
    if !is_installed() {
        return skipped(SKIPPED);
    }
    let ground = Ground::new();
    let (mark, helper) = (mark(), ground.own_helper());
    let config = config(&ground).with_helper(&helper).with_maker(UserNamespaceMaker::Bubblewrap);
    let sandbox = Arc::new(Sandbox::start(config).unwrap());
    let (own, request) = (sandbox.clone(), ground.bash(&format!("setsid sleep {mark} & sleep {mark}")));
    let run = tokio::spawn(async move { own.run(request).await });
    until("both run", || count(&mark, None) >= 2);
    let bubblewrap = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let runs = std::fs::read_link(entry.path().join("exe")).ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().to_owned();
        let starts = std::fs::read_link(format!("/proc/{parent}/exe")).ok()?;
        (runs == helper && starts.ends_with("bwrap")).then(|| parent.parse::<i32>().unwrap())
    });
    let bubblewrap = rustix::process::Pid::from_raw(bubblewrap.unwrap()).unwrap();
    rustix::process::kill_process(bubblewrap, rustix::process::Signal::KILL).unwrap();
    until("all of it is gone", || count(&mark, Some(&helper)) == 0);
    let lost = run.await.unwrap();
    // Whichever end is seen first: that of the command, or of the helper that would tell of it.
    match lost {
        Ok(outcome) => assert_eq!(outcome.exit, ProcessExit::Signal(9)),
        Err(lost) => assert!(lost.to_string().contains("helper has ended"), "{lost:?}"),
    }
    assert!(sandbox.run(ground.bash("true")).await.is_err());
}

/// What keeps bubblewrap from helping is said in its own words.
#[test]
fn what_bubblewrap_complains_of_is_passed_on() {
    if !is_installed() {
        return skipped(SKIPPED);
    }
    let ground = Ground::new();
    let broken = ground.at("broken");
    std::fs::write(&broken, "no program").unwrap();
    let mut config = config(&ground).with_helper(&broken).with_maker(UserNamespaceMaker::Bubblewrap);
    config.full_only = true;
    let refused = Sandbox::start(config).err().unwrap().message;
    assert!(refused.contains("bwrap` can't help: bwrap: execvp /proc/self/fd/4"), "{refused}");
}
