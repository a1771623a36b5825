//! `haft mcp add`, `add-json` and `remove`: changes to the files that name servers. Starts nothing.
//!
//! For everybody in a workspace that is its `.mcp.json`; for the user a file of their own, which has servers for all
//! workspaces and for single ones. What Claude Code keeps for itself is read and never written. Everything else in a file
//! stays as it was, and a file is replaced whole or not at all.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_policy::settings::edit::{with_server, without_server};
use haft_policy::settings::{Places, SETTINGS_BYTES_MAX, check_server, read_text};
use haft_policy::trust::replace_file;
use serde_json::{Map, Value, json};

use super::args::{AddArgs, AddJsonArgs, Kind, RemoveArgs, Scope};
use super::scope_word;
use crate::args::Common;
use crate::output::{self, one_line};
use crate::{Exit, Usage, call, given, processes};

/// Permissions of a new file that others should read as well; one of the user's own may hold secrets.
const SHARED: u32 = 0o644;
const PRIVATE: u32 = 0o600;

pub(super) fn add(args: &AddArgs, common: &Common) -> Result<Exit, Usage> {
    put(common, args.scope, &args.name, entry(args)?)
}

pub(super) fn add_json(args: &AddJsonArgs, common: &Common) -> Result<Exit, Usage> {
    let text = call::input(Some(&args.json))?;
    let server: Value = serde_json::from_str(&text).map_err(|error| Usage(format!("the entry: {error}")))?;
    put(common, args.scope, &args.name, server)
}

/// The entry that the flags describe.
fn entry(args: &AddArgs) -> Result<Value, Usage> {
    let scheme = args.target.split_once("://").map(|(scheme, _)| scheme);
    let kind = args.transport.unwrap_or(match scheme {
        Some("http" | "https") => Kind::Http,
        Some("ws" | "wss") => Kind::Ws,
        _ => Kind::Stdio,
    });
    if args.transport.is_none()
        && scheme.is_none()
        && args.args.is_empty()
        && looks_like_address(&args.target)
    {
        return Err(Usage(format!(
            "`{0}` looks like an address and would be taken for a command; write `http://{0}` for an address, or give \
             `--transport stdio` for a command of this name",
            one_line(&args.target)
        )));
    }
    let known = matches!(
        (kind, scheme),
        (Kind::Stdio, None)
            | (Kind::Http | Kind::Sse, Some("http" | "https"))
            | (Kind::Ws, Some("ws" | "wss"))
    );
    if let Some(scheme) = scheme.filter(|scheme| !known && !scheme.contains("${")) {
        let accepted = match kind {
            Kind::Stdio => "a command, or an address with http, https, ws or wss",
            Kind::Http | Kind::Sse => "an address with http or https",
            Kind::Ws => "an address with ws or wss",
        };
        return Err(Usage(format!(
            "`{}` is an address with `{}`, and no server is reached so; {accepted} is accepted",
            one_line(&args.target),
            one_line(scheme)
        )));
    }
    let word = match kind {
        Kind::Stdio => {
            if let Some(header) = args.header.first() {
                return Err(Usage(format!(
                    "--header `{}`: a process has no headers; --env sets a variable",
                    one_line(header)
                )));
            }
            let mut server = json!({"command": args.target, "args": args.args});
            let env = pairs("--env", &args.env, '=', "NAME=VALUE")?;
            if !env.is_empty() {
                server["env"] = Value::Object(env);
            }
            return Ok(server);
        }
        Kind::Http => "http",
        Kind::Sse => "sse",
        Kind::Ws => "ws",
    };
    if let Some(argument) = args.args.first() {
        return Err(Usage(format!("`{}`: an address has no arguments", one_line(argument))));
    }
    if let Some(variable) = args.env.first() {
        return Err(Usage(format!(
            "--env `{}`: an address has no environment; --header sets a header",
            one_line(variable)
        )));
    }
    if scheme.is_none() && !args.target.contains("${") {
        return Err(Usage(format!("`{}` is no address; https://… is accepted", one_line(&args.target))));
    }
    let mut server = json!({"type": word, "url": args.target});
    let headers = pairs("--header", &args.header, ':', "\"Name: value\"")?;
    if !headers.is_empty() {
        server["headers"] = Value::Object(headers);
    }
    Ok(server)
}

/// Whether a target could be an address without its beginning: a host and a port, or a host and a path as servers have them.
fn looks_like_address(target: &str) -> bool {
    let (place, path) = target.split_once('/').unwrap_or((target, ""));
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
    };
    match place.split_once(':') {
        Some((host, port)) => is_host(host) && port.parse::<u16>().is_ok(),
        None => {
            let ends = matches!(path.trim_end_matches('/').rsplit('/').next(), Some("mcp" | "sse"));
            is_host(place)
                && (place == "localhost" || (place.contains('.') && !place.starts_with('.') && ends))
        }
    }
}

fn pairs(flag: &str, given: &[String], between: char, form: &str) -> Result<Map<String, Value>, Usage> {
    let pair = |text: &String| match text.split_once(between) {
        Some((name, value)) if !name.trim().is_empty() => {
            let value = if between == ':' { value.trim() } else { value };
            Ok((name.trim().to_owned(), json!(value)))
        }
        // What was given may be a secret.
        _ => Err(Usage(format!("{flag} takes {form}"))),
    };
    given.iter().map(pair).collect()
}

/// A file of servers, and for whom the servers are that it is asked about.
struct Place {
    scope: Scope,
    file: PathBuf,
    /// The key of the workspace, in a file of many.
    project: Option<String>,
    mode: u32,
}

fn places_of(common: &Common) -> Result<Places, Usage> {
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    Ok(given::places(cwd, &|name| std::env::var_os(name))?)
}

fn place(places: &Places, scope: Scope) -> Result<Place, Usage> {
    let own = || {
        places.own_servers().ok_or_else(|| {
            Usage(
                "there is no folder for your settings; set HAFT_CONFIG_DIR, or HOME, to an absolute path"
                    .into(),
            )
        })
    };
    Ok(match scope {
        Scope::User => Place { scope, file: own()?, project: None, mode: PRIVATE },
        Scope::Local => {
            let root = places.git_root.as_ref().unwrap_or(&places.cwd);
            Place { scope, file: own()?, project: Some(root.display().to_string()), mode: PRIVATE }
        }
        Scope::Project => Place { scope, file: places.cwd.join(".mcp.json"), project: None, mode: SHARED },
    })
}

/// How long another change of the same file is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

impl Place {
    /// Keeps others from changing the files of its folder until what is returned is gone: what is written has to be made of what is
    /// there then. The lock is on the folder, so that nothing is left in a workspace.
    fn locked(&self, places: &Places) -> Result<File, Usage> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let failed = |error: &dyn std::fmt::Display| Usage(format!("{}: {error}", places.show(&self.file)));
        if self.mode == PRIVATE {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(&error))?;
        }
        let lock = File::open(folder).map_err(|error| failed(&error))?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_WAIT => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(failed(&"another program is changing it; try again"));
                }
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
            }
        }
    }

    fn text(&self, places: &Places) -> Result<String, Usage> {
        let read = read_text(&self.file, SETTINGS_BYTES_MAX);
        let read = read.map_err(|words| Usage(format!("{}: {words}", places.show(&self.file))))?;
        Ok(read.unwrap_or_default())
    }

    fn write(&self, places: &Places, text: &str) -> Result<(), Usage> {
        let caches = places.state_dir.as_deref().map(processes::caches);
        if caches.is_some_and(|caches| !haft_sandbox::make_way(&caches, &self.file)) {
            return Err(Usage(format!(
                "{}: a command runs here that could write this file, so an empty folder stands in its place until it has \
                 ended; wait for it or stop it, and try again",
                places.show(&self.file)
            )));
        }
        replace_file(&self.file, text.as_bytes(), self.mode)
            .map_err(|error| Usage(format!("{}: {error}", places.show(&self.file))))
    }

    fn wrong(&self, places: &Places) -> impl Fn(String) -> Usage + use<> {
        let file = places.show(&self.file);
        move |words| Usage(format!("{file}: {words}; nothing was changed"))
    }
}

/// Puts an entry into the file of a scope.
fn put(common: &Common, scope: Scope, name: &str, server: Value) -> Result<Exit, Usage> {
    let notes = check_server(name, &server)
        .map_err(|words| Usage(format!("the server `{}`: {words}", one_line(name))))?;
    notes.iter().for_each(|note| output::warning(&one_line(note)));
    if name.contains("__") {
        return Err(Usage(format!(
            "the server `{name}`: `__` stands between the names in `mcp__server__tool`, so no rule could be about this \
             server alone; choose a name without it"
        )));
    }
    let places = places_of(common)?;
    let place = place(&places, scope)?;
    let _lock = place.locked(&places)?;
    let (text, wrong) = (place.text(&places)?, place.wrong(&places));
    if without_server(&text, place.project.as_deref(), name).map_err(&wrong)?.is_some() {
        return Err(Usage(format!(
            "{} names `{name}` already; `haft mcp remove {name} --scope {}` removes it",
            places.show(&place.file),
            scope_word(scope.into())
        )));
    }
    let text = with_server(&text, place.project.as_deref(), name, &server).map_err(&wrong)?;
    place.write(&places, &text)?;
    let whom = match scope {
        Scope::Local => "for you, in this workspace",
        Scope::User => "for you, everywhere",
        Scope::Project => "for everybody in this workspace",
    };
    output::say(&format!("added `{name}` to {} ({whom})", places.show(&place.file)));
    match scope {
        Scope::Project => output::say(&format!(
            "it counts once you said yes to it: `haft trust`, then `haft mcp approve {name}`"
        )),
        _ => output::say(&format!("`haft mcp get {name}` tries it and shows its tools")),
    }
    Ok(Exit::Done)
}

pub(super) fn remove(args: &RemoveArgs, common: &Common) -> Result<Exit, Usage> {
    let (name, places) = (&args.name, places_of(common)?);
    let scopes = match args.scope {
        Some(scope) => vec![scope],
        None => vec![Scope::Local, Scope::Project, Scope::User],
    };
    let (mut found, mut locks) = (Vec::new(), Vec::new());
    for scope in scopes {
        // Without a folder for settings there is nothing in it either.
        let Ok(place) = place(&places, scope) else { continue };
        let folder = place.file.parent().map(Path::to_owned);
        if place.file.exists() && !locks.iter().any(|(locked, _)| *locked == folder) {
            locks.push((folder, place.locked(&places)?));
        }
        let (text, wrong) = (place.text(&places)?, place.wrong(&places));
        // One that was added in a folder of the repository counts there.
        let folder = place.project.as_ref().map(|_| places.cwd.display().to_string());
        let keys = [place.project.clone(), folder];
        let mut rest = None;
        for key in if place.project.is_some() { &keys[..] } else { &keys[..1] } {
            rest = without_server(&text, key.as_deref(), name).map_err(&wrong)?;
            if rest.is_some() {
                break;
            }
        }
        if let Some(rest) = rest {
            found.push((place, rest));
        }
    }
    match &found[..] {
        [(place, rest)] => {
            place.write(&places, rest)?;
            output::say(&format!("removed `{name}` from {}", places.show(&place.file)));
            Ok(Exit::Done)
        }
        [] => {
            let theirs = places.claude_json.as_deref().filter(|file| {
                std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("\"{name}\"")))
            });
            let hint = match theirs {
                Some(file) => {
                    format!("; {} is Claude Code's own, `claude mcp remove` changes it", places.show(file))
                }
                None => "; `haft mcp list` shows what there is".to_owned(),
            };
            Err(Usage(format!(
                "no file of yours or of this workspace names a server `{}`{hint}",
                one_line(name)
            )))
        }
        several => {
            let scopes: Vec<&str> = several.iter().map(|(place, _)| scope_word(place.scope.into())).collect();
            Err(Usage(format!(
                "`{name}` is named in several places; give --scope with {}",
                scopes.join(" or ")
            )))
        }
    }
}
