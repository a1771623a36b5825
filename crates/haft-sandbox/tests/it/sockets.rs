//! Sockets of programs of the host: whoever reaches one has what the program behind it can do. Each is tried
//! in a session, where it must not be reached, and outside, where it must.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use haft::ports::{ConfinementLevel, ProcessRequest, Processes as _};
use haft_sandbox::{LocalProcesses, Sandbox, SandboxConfig};

use crate::confined::{HELPER, is_root};
use crate::profile::User;

/// Connects to each of its arguments; a first `@` is an abstract name.
const CONNECT: &str = "import socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try: s.connect('\\0' + path[1:] if path[0] == '@' else path); print('reached', path)
    except OSError as e: print('not', path, e.errno)";

fn connect(user: &User, paths: &[String]) -> ProcessRequest {
    let words = ["/usr/bin/python3", "-c", CONNECT].into_iter().chain(paths.iter().map(String::as_str));
    ProcessRequest::new(words, user.at("work"))
}

/// Docker, D-Bus, agents of ssh and gpg, terminals of tmux: where such programs put their sockets.
#[tokio::test]
async fn sockets_of_the_host_are_not_there() {
    let user = User::new();
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    let various = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut places: Vec<PathBuf> = vec![
        user.at("home/.docker/run/docker.sock"),
        user.at("home/.gnupg/S.gpg-agent"),
        user.at("home/.ssh/agent.1"),
        user.at("home/.cache/pip/bus"),
        user.at("home/.local/bin/agent.sock"),
        user.at("other/bus"),
        user.at("state/own.sock"),
        // In the work itself: covered, because it was there when the session began.
        user.at("work/.vscode-server.sock"),
        user.at("work/deep/er/docker.sock"),
        temporary.path().join("agent.1"),
        various.path().join("bus"),
    ];
    // `/run` is root's, and that of a user is in it where there is one.
    let run = is_root().then(|| tempfile::tempdir_in("/run").unwrap());
    places.extend(run.as_ref().map(|run| run.path().join("docker.sock")));
    let runtime = PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw()));
    let runtime = tempfile::tempdir_in(runtime).ok();
    places.extend(runtime.as_ref().map(|runtime| runtime.path().join("bus")));
    let mut listeners = Vec::new();
    for place in &places {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        listeners.push(UnixListener::bind(place).unwrap());
    }
    let name = format!("haft-test-bus-{}", std::process::id());
    listeners.push(UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap());
    let mut paths: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    paths.push(format!("@{name}"));
    // By way of a link, too.
    std::os::unix::fs::symlink(&places[0], user.at("work/link")).unwrap();
    paths.push(user.at("work/link").display().to_string());

    let session = user.session();
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let (_, said, _) = session.run(connect(&user, &paths).with_confinement(confinement)).await;
        assert_eq!(said.lines().filter(|line| line.starts_with("not ")).count(), paths.len(), "{said}");
    }
    let outcome = LocalProcesses::new(std::env::vars_os()).run(connect(&user, &paths)).await.unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
    assert_eq!(said.lines().filter(|line| line.starts_with("reached ")).count(), paths.len(), "{said}");
}

/// Nor do commands learn where they are.
#[tokio::test]
async fn variables_that_lead_to_sockets_are_not_passed() {
    let user = User::new();
    let names = [
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "TMUX",
        "GPG_AGENT_INFO",
        "WAYLAND_DISPLAY",
        "DISPLAY",
    ];
    let leading = names.map(|name| (name.into(), "/run/somewhere".into()));
    let variables = || std::env::vars_os().chain(leading.clone());
    let mut config = SandboxConfig::new(user.config.clone()).unwrap().with_helper(HELPER);
    config.full_only = true;
    let sandbox = Sandbox::start(config.with_variables(variables())).unwrap();
    let request = || ProcessRequest::new(["/usr/bin/env"], user.at("work"));
    let found = |outcome: haft::ports::ProcessOutcome| {
        let text = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
        names.into_iter().filter(|name| text.contains(&format!("{name}=/run/somewhere"))).count()
    };
    assert_eq!(found(sandbox.run(request()).await.unwrap()), 0);
    // Who names them gets them.
    let named = request().with_passed_env(names);
    let outcome = LocalProcesses::new(variables()).run(named).await.unwrap();
    assert_eq!(found(outcome), names.len());
}
