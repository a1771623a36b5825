//! The whole: profile, network and helper together.

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessExit, Processes as _};
use haft_sandbox::testing::maker;
use haft_sandbox::{ProfileConfig, Sandbox, SandboxConfig, SandboxStack};

use crate::confined::{Ground, HELPER, said};

fn session(ground: &Ground) -> Sandbox {
    let mut profile = ProfileConfig::new(
        ground.workspace(),
        ground.at("temp"),
        ground.at("caches"),
        haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
    );
    std::fs::create_dir_all(ground.at("home/.cargo")).unwrap();
    std::fs::create_dir_all(ground.at("home/.ssh")).unwrap();
    std::fs::write(ground.at("home/.ssh/id"), "SECRET").unwrap();
    profile.home = Some(ground.at("home"));
    let variables = std::env::vars_os().filter(|(name, _)| name != "HOME");
    let variables = variables.chain([("HOME".into(), ground.at("home").into_os_string())]);
    let config = SandboxConfig::new(profile).unwrap().with_helper(HELPER).with_maker(maker());
    Sandbox::start(config.with_variables(variables)).unwrap()
}

#[tokio::test]
async fn a_session_of_several_calls() {
    let ground = Ground::new();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").args(arguments).current_dir(ground.workspace()).output();
        assert!(done.unwrap().status.success());
    };
    git(&["init", "-q"]);
    let sandbox = session(&ground);
    assert_eq!(sandbox.stack(), SandboxStack::Full, "{:?}", sandbox.notes());
    for (confinement, script, expected) in [
        (ConfinementLevel::ReadOnly, "git status --short && echo looked", "Code(0) looked\n"),
        (ConfinementLevel::ReadOnly, "touch x 2>/dev/null || echo no", "Code(0) no\n"),
        (ConfinementLevel::Session, "echo hi > file; git status --short", "Code(0) ?? file\n"),
        (ConfinementLevel::Session, "echo kept > /tmp/note; echo $HOME | sed 's,.*/,,'", "Code(0) home\n"),
        (ConfinementLevel::Session, "cat /tmp/note; ls ~/.ssh 2>/dev/null | wc -l", "Code(0) kept\n0\n"),
        (ConfinementLevel::Session, "(echo x >> .git/config) 2>/dev/null || echo held", "Code(0) held\n"),
        (ConfinementLevel::Session, "mkdir .claude; touch .claude/settings.json", "Code(0) "),
        (ConfinementLevel::Session, "ls -A .claude 2>/dev/null || echo gone", "Code(0) gone\n"),
    ] {
        let outcome = sandbox.run(ground.bash(script).with_confinement(confinement)).await.unwrap();
        assert_eq!(said(&outcome), expected, "{script}: {:?}", sandbox.notes());
    }
}

/// Programs that know the proxy and programs that don't: both are refused, and both are known by name.
#[tokio::test]
async fn hosts_are_refused_by_name() {
    let ground = Ground::new();
    let sandbox = session(&ground);
    let script = "import urllib.request, socket
try: urllib.request.urlopen('http://by-proxy.example/')
except Exception as e: print(e)
try: socket.getaddrinfo('by-name.example', 80)
except Exception as e: print(e)";
    let outcome = sandbox.run(ground.python(script)).await.unwrap();
    let hosts: Vec<&str> = outcome
        .refused
        .iter()
        .filter_map(|refusal| match refusal {
            ConfinementRefusal::Host { host, .. } => Some(host.as_str()),
            _ => None,
        })
        .collect();
    assert!(hosts.contains(&"by-proxy.example"), "{hosts:?} {}", said(&outcome));
    assert_eq!(outcome.exit, ProcessExit::Code(0));
}

#[tokio::test]
async fn empty_folders_of_the_user_with_protected_names_stay() {
    let user = crate::profile::User::new();
    for name in [".claude", ".idea"] {
        std::fs::create_dir(user.at("work").join(name)).unwrap();
    }
    let session = user.session();
    session.good("echo > q").await;
    session.run(session.request("echo > .idea/x")).await;
    drop(session);
    assert!(user.at("work/.claude").is_dir() && user.at("work/.idea").is_dir());
    assert!(!user.at("work/.idea/x").exists());
}
