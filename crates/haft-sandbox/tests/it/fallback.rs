//! What holds without namespaces.

use std::os::unix::net::UnixListener;

use haft::ports::{ConfinementLevel, Processes as _};
use haft_sandbox::{LocalProcesses, SandboxStack};

use crate::confined::{Ground, said};

#[tokio::test]
async fn reads_and_writes_are_limited_by_a_list() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.workspace().join("deep/er")).unwrap();
    std::fs::write(ground.workspace().join("deep/er/.env"), "SECRET").unwrap();
    std::fs::write(ground.workspace().join("deep/er/open"), "open").unwrap();
    std::fs::create_dir(ground.workspace().join("free")).unwrap();
    let scene = ground.scene().mask(ground.workspace().join("deep/er/.env"));
    let sandbox = ground.sandbox_of(SandboxStack::Fallback, scene);
    assert_eq!(sandbox.stack(), SandboxStack::Fallback);
    let outside = ground.at("outside");
    let outside = outside.display();
    let _socket = UnixListener::bind(ground.at("outside/socket")).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    for script in [
        format!("cat {outside}/secret && echo DONE"),
        format!("ls {outside} && echo DONE"),
        format!("echo x > {outside}/new && echo DONE"),
        "cat deep/er/.env && echo DONE".to_owned(),
        format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})); print(\"DONE\")'"
        ),
        format!(
            "python3 -c 'import socket; s = socket.socket(2, 2); s.sendto(b\"x\", (\"127.0.0.1\", {port})); print(\"DONE\")'"
        ),
        format!(
            "python3 -c 'import socket; s = socket.socket(1); s.connect(\"{outside}/socket\"); print(\"DONE\")'"
        ),
        format!("kill -0 {} && echo DONE", std::process::id()),
        // A bound on its time would end it.
        format!("prlimit --pid {} --cpu && echo DONE", std::process::id()),
        format!("tr '\\0' ' ' < /proc/{}/environ && echo DONE", std::process::id()),
        "unshare -U true && echo DONE".to_owned(),
        "touch f; chmod 4755 f && echo DONE".to_owned(),
    ] {
        for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
            let outcome = sandbox.run(ground.bash(&script).with_confinement(confinement)).await.unwrap();
            // The mask is of the first scene only.
            if !(script.contains(".env &&") && confinement == ConfinementLevel::ReadOnly) {
                assert!(!said(&outcome).contains("DONE"), "{script}: {}", said(&outcome));
            }
        }
        let outcome = LocalProcesses::new(std::env::vars_os()).run(ground.bash(&script)).await.unwrap();
        assert!(said(&outcome).contains("DONE"), "not even outside: {script}: {}", said(&outcome));
    }
    let outcome = sandbox.run(ground.bash("cat deep/er/open; echo made > free/made; cat free/made; echo made > made; echo x > /dev/null; ls /proc/self >/dev/null && echo DONE")).await;
    assert_eq!(said(&outcome.unwrap()), "Code(0) openmade\nDONE\n");
    let outcome = sandbox
        .run(ground.bash("echo x > made && echo DONE").with_confinement(ConfinementLevel::ReadOnly))
        .await;
    assert!(!said(&outcome.unwrap()).contains("DONE"));
}

/// Landlock knows nothing of these.
#[tokio::test]
async fn who_only_looks_changes_no_attributes() {
    let ground = Ground::new();
    let sandbox = ground.sandbox_of(SandboxStack::Fallback, ground.scene());
    let secret = ground.at("outside/secret");
    let path = secret.display();
    for python in [
        format!("os.chmod('{path}', 0o666)"),
        "os.fchmod(os.open('plain', 0), 0o666)".to_owned(),
        format!("os.utime('{path}')"),
        format!("os.chown('{path}', os.getuid(), os.getgid())"),
        "os.setxattr('plain', 'user.haft', b'1')".to_owned(),
        "import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0".to_owned(),
    ] {
        std::fs::write(ground.workspace().join("plain"), "x").unwrap();
        let request =
            ground.python(&format!("import os; {python}; print('DONE')")).with_env("PATH", "/usr/bin:/bin");
        let outcome =
            sandbox.run(request.clone().with_confinement(ConfinementLevel::ReadOnly)).await.unwrap();
        assert!(!said(&outcome).contains("DONE"), "{python}: {}", said(&outcome));
        let outcome = LocalProcesses::new(std::env::vars_os()).run(request).await.unwrap();
        assert!(said(&outcome).contains("DONE"), "not even outside: {python}: {}", said(&outcome));
    }
    // Who may write may do that too.
    let outcome = sandbox.run(ground.bash("chmod 600 plain && echo DONE")).await.unwrap();
    assert!(said(&outcome).contains("DONE"), "{}", said(&outcome));
}

/// Filters of containers say that there is no `clone3`: then the older call is taken.
#[test]
fn in_a_container_commands_run_in_the_fallback() {
    let run = || {
        haft_sandbox::testing::as_in_a_container();
        let ground = Ground::new();
        let mut profile = haft_sandbox::ProfileConfig::new(
            ground.workspace(),
            ground.at("temp"),
            ground.at("caches"),
            haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
        );
        profile.home = Some(ground.at("home"));
        std::fs::create_dir_all(ground.at("home")).unwrap();
        std::fs::create_dir(ground.workspace().join(".git")).unwrap();
        let config = haft_sandbox::SandboxConfig::new(profile).unwrap().with_helper(crate::confined::HELPER);
        let config = config
            .with_maker(haft_sandbox::UserNamespaceMaker::Ourselves)
            .with_variables(std::env::vars_os());
        let sandbox = haft_sandbox::Sandbox::start(config).unwrap();
        assert_eq!(sandbox.stack(), SandboxStack::Fallback);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(sandbox.run(ground.bash("echo here; echo x > .vscode/x"))).unwrap();
        assert!(said(&outcome).contains("here"), "{}", said(&outcome));
        // Nobody is told that no command could have done what one did.
        let told = format!("{:?}", outcome.refused);
        assert!(!told.contains("no command can write it"), "{told}");
        let outside = format!("echo x > {}/new && echo DONE", ground.at("outside").display());
        let outcome = runtime.block_on(sandbox.run(ground.bash(&outside))).unwrap();
        assert!(!said(&outcome).contains("DONE"));
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}
