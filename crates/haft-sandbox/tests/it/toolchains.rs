//! Tool chains that the environment names: they work wherever they lie, and a variable shows nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use haft::ports::{ConfinementRefusal, ProcessExit};

use crate::profile::User;
use crate::skipped;

/// A user whose environment has this variable, with a value below the user's folder.
fn user_with(variable: &str, value: &str) -> User {
    let mut user = User::new();
    let value = value.replace('~', user.root.to_str().unwrap());
    user.config.variables.push((variable.into(), value.into()));
    user
}

/// Makes a program that says hello.
fn program(path: &Path) {
    script(path, "#!/bin/sh\necho hello\n");
}

fn script(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn what_the_environment_names_is_shown_without_its_credentials() {
    for (variable, value, runs, shown, secret) in [
        ("CARGO_HOME", "~/data/cargo", "bin/greet", "env", "credentials.toml"),
        ("CARGO_HOME", "~/home/data/cargo", "bin/greet", "env", "notes"),
        ("RUSTUP_HOME", "~/data/rustup", "toolchains/stable/bin/greet", "settings.toml", ".env"),
        ("GOPATH", "~/data/go:~/data/other", "bin/greet", "bin/greet", "bin/.netrc"),
        ("GOROOT", "~/data/go", "bin/greet", "VERSION", "notes"),
        ("JAVA_HOME", "~/data/java", "bin/greet", "release", "conf/token"),
        ("NVM_DIR", "~/data/nvm", "versions/node/v20/bin/greet", "nvm.sh", ".npmrc"),
        ("PYENV_ROOT", "~/data/pyenv", "versions/3/bin/greet", "shims/python", ".pypirc"),
        ("VIRTUAL_ENV", "~/data/venv", "bin/greet", "pyvenv.cfg", "pip.conf"),
        ("UV_TOOL_DIR", "~/data/uv", "tool/bin/greet", "tool/uv-receipt.toml", "tool/credentials.json"),
        ("UV_PYTHON_INSTALL_DIR", "~/data/uv", "cpython/bin/greet", "cpython/lib/a.py", ".env"),
        ("UV_TOOL_BIN_DIR", "~/data/uv/bin", "greet", "greet", ".env"),
        ("PATH", "/usr/bin:/bin:~/data/bin", "greet", "greet", "../notes"),
        ("PATH", "/usr/bin:/bin:~/data/node/bin", "greet", "../lib/a.js", "../etc/npmrc"),
        ("PATH", "/usr/bin:/bin:~/data/rbenv/shims", "greet", "../versions/3/bin/ruby", "../notes"),
        ("PATH", "/usr/bin:/bin:~/home/opt/tool/bin", "greet", "../share/a", "../notes"),
    ] {
        let user = user_with(variable, value);
        let folder = value.split(':').find(|part| part.starts_with('~')).unwrap();
        let folder = user.at(folder.trim_start_matches("~/"));
        fs::create_dir_all(&folder).unwrap();
        for path in [shown, secret] {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), if path == secret { "SECRET" } else { "shown" }).unwrap();
        }
        program(&folder.join(runs));
        let session = user.session();
        let (runs, shown, secret) = (folder.join(runs), folder.join(shown), folder.join(secret));
        let said = session.good(&format!("{}; cat {} > /dev/null", runs.display(), shown.display())).await;
        assert_eq!(said, "hello\n", "{variable}={value}");
        session.bad(&format!("cat {}", secret.display())).await;
        session.bad(&format!("echo x > {}", runs.display())).await;
    }
}

#[tokio::test]
async fn a_cache_that_a_variable_moves_is_a_copy() {
    for (variable, value, cached) in [
        ("CARGO_HOME", "~/data/cargo", "registry/cached"),
        ("CARGO_HOME", "~/home/data/cargo", "git/cached"),
        ("GOMODCACHE", "~/data/modules", "cached"),
        ("GOCACHE", "~/data/build", "cached"),
        ("UV_CACHE_DIR", "~/data/uv", "cached"),
    ] {
        let user = user_with(variable, value);
        let file = user.at(value.trim_start_matches("~/")).join(cached);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "cached").unwrap();
        let session = user.session();
        session.good(&format!("cat {0} && echo changed > {0}", file.display())).await;
        assert_eq!(session.good(&format!("cat {}", file.display())).await, "changed\n", "{variable}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "cached");
    }
}

/// One that isn't there yet is made in the copy, and nothing on the host.
#[tokio::test]
async fn a_cache_that_is_not_there_yet_is_kept_too() {
    let user = user_with("GOCACHE", "~/data/build");
    let session = user.session();
    session.good("echo new > $GOCACHE/x").await;
    assert_eq!(session.good("cat $GOCACHE/x").await, "new\n");
    assert!(!user.at("data").exists());
}

#[tokio::test]
async fn no_variable_shows_what_is_hidden_or_too_wide() {
    for (variable, value) in [
        ("JAVA_HOME", "~/home/.ssh"),
        ("VIRTUAL_ENV", "~/home"),
        ("PATH", "/usr/bin:/bin:~/home"),
        ("PATH", "/usr/bin:/bin:~/home/.ssh/bin"),
        ("PATH", "/usr/bin:/bin:~"),
        ("PATH", "/usr/bin:/bin:~/state"),
        ("GOCACHE", "~/home"),
        ("UV_CACHE_DIR", "~/home/.ssh"),
        ("GOCACHE", "~"),
        ("RUSTUP_HOME", "~/home"),
        ("NVM_DIR", "~/home/.ssh"),
        ("NVM_DIR", "~/linked"),
        ("PATH", "/usr/bin:/bin:relative"),
    ] {
        let user = user_with(variable, value);
        for folder in ["home", "home/.ssh", "home/.ssh/bin", "home/bin", ".", "state"] {
            program(&user.at(folder).join("greet"));
        }
        symlink(user.at("home/.ssh"), user.at("linked")).unwrap();
        fs::write(user.at("home/notes"), "SECRET").unwrap();
        let session = user.session();
        let root = user.root.display();
        for secret in ["home/.ssh/id_ed25519", "home/.netrc", "home/notes", "state/trust", "other/file"] {
            session.bad(&format!("cat {root}/{secret}")).await;
        }
    }
}

/// A home folder, and a folder for tool chains, that are links to elsewhere: each is found by both of its
/// paths.
#[tokio::test]
async fn tool_chains_behind_links_are_found() {
    for (variable, value, runs) in [
        ("CARGO_HOME", "~/linked/.cargo", "bin/greet"),
        ("CARGO_HOME", "~/linked/data/cargo", "bin/greet"),
        ("RUSTUP_HOME", "~/linked/data/rustup", "toolchains/stable/bin/greet"),
        ("JAVA_HOME", "~/linked/java", "bin/greet"),
        ("PATH", "/usr/bin:/bin:~/linked/bin", "greet"),
        ("PATH", "/usr/bin:/bin:~/opt/current/bin", "greet"),
        ("PATH", "/usr/bin:/bin:~/home/current/bin", "greet"),
    ] {
        let mut user = user_with(variable, value);
        symlink(user.at("home"), user.at("linked")).unwrap();
        fs::create_dir_all(user.at("opt/v1")).unwrap();
        symlink(user.at("opt/v1"), user.at("opt/current")).unwrap();
        symlink(user.at("opt/v1"), user.at("home/current")).unwrap();
        user.config.home = Some(user.at("linked"));
        let folder = user.at(value.split(':').next_back().unwrap().trim_start_matches("~/"));
        program(&folder.join(runs));
        let real = folder.canonicalize().unwrap();
        let script = format!("{}/{runs}; {}/{runs}", folder.display(), real.display());
        assert_eq!(user.session().good(&script).await, "hello\nhello\n", "{variable}={value}");
        let missing = user.session().good("mkdir -p ~/new && echo x > ~/new/y && cat ~/new/y").await;
        assert_eq!(missing, "x\n");
    }
}

/// What lies in the working directory stays as it is: an environment there is written too.
#[tokio::test]
async fn what_a_variable_names_in_the_working_directory_is_written() {
    let user = user_with("VIRTUAL_ENV", "~/work/.venv");
    program(&user.at("work/.venv/bin/greet"));
    user.session().good(".venv/bin/greet && echo x > .venv/bin/new && mkdir -p .venv/lib").await;
}

#[tokio::test]
async fn a_program_that_is_hidden_is_named_with_what_would_allow_it() {
    let user = user_with("PATH", "/usr/bin:/bin:~/home/bin");
    script(&user.at("home/src/tool"), "#!/bin/sh\necho hello\n");
    fs::create_dir(user.at("home/bin")).unwrap();
    symlink(user.at("home/src/tool"), user.at("home/bin/tool")).unwrap();
    script(&user.at("home/opt/python"), "#!/bin/sh\necho hello\n");
    script(&user.at("home/bin/linter"), &format!("#!{}\n", user.at("home/opt/python").display()));
    let session = user.session();
    for (script, name, folder) in [
        ("tool", "tool", "home/src"),
        ("sh -c tool", "tool", "home/src"),
        ("env tool", "tool", "home/src"),
        ("python3 -c 'import subprocess; subprocess.run([\"tool\"])'", "tool", "home/src"),
        ("linter", "linter", "home/opt"),
    ] {
        let (exit, said, refused) = session.run(session.request(script)).await;
        assert_ne!(exit, ProcessExit::Code(0), "{script}: {said}");
        let folder = user.at(folder);
        let why = format!(
            "`{name}` is on your PATH, but the sandbox hides `{0}`; allow it with `sandbox.filesystem.allowRead: [\"{0}\"]` \
             in your settings",
            folder.display()
        );
        assert_eq!(refused, [ConfinementRefusal::Unseen { folder, why }], "{script}: {said}");
    }
    for script in ["no-such-program", "cat missing", "echo greet: not found", "ls /nowhere/tool2"] {
        let (_, said, refused) = session.run(session.request(script)).await;
        assert_eq!(refused, [], "{script}: {said}");
    }
    let mut user = user;
    user.config.allow_read.extend([user.at("home/src"), user.at("home/opt")]);
    assert_eq!(user.session().good("tool && linter").await, "hello\nhello\n");
}

/// The real one, with a home folder that holds nothing of it.
#[tokio::test]
async fn a_tool_chain_of_rust_outside_of_the_home_folder_works() {
    let home = std::env::home_dir().unwrap();
    let usual = |variable: &str, name: &str| {
        std::env::var_os(variable).map_or_else(|| home.join(name), std::path::PathBuf::from)
    };
    let mut user = User::new();
    let variables =
        [("CARGO_HOME", usual("CARGO_HOME", ".cargo")), ("RUSTUP_HOME", usual("RUSTUP_HOME", ".rustup"))];
    user.config.variables.extend(variables.map(|(name, path)| (name.into(), path.into())));
    let script = "cargo init -q --vcs none --name one one && cd one && cargo add -q --offline itoa && cargo build -q --offline \
                  --target-dir target && target/debug/one";
    let outside = user.at("outside");
    fs::create_dir(&outside).unwrap();
    let done = Command::new("bash").args(["-c", script]).current_dir(&outside).output().unwrap();
    if !done.status.success() {
        return skipped(&format!("it doesn't work here: {}", String::from_utf8_lossy(&done.stderr)));
    }
    assert_eq!(user.session().good(script).await, "Hello, world!\n");
}
