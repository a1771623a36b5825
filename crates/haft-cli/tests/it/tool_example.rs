//! An example of each built-in tool, played in a real session.
//!
//! `docs/tools/examples/NAME.json` says what there is before (files, commands, a site on this machine,
//! settings), which calls go before, and the call itself. It is played by the scripted model in `haft run`,
//! so that what pages show, what is traced and what a user gets are the same thing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::room::{PATH, Ran, Room, crate_path};

/// What a file of examples holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Example {
    /// What the call is for, as a sentence of the page.
    pub(crate) about: String,
    /// Files of the workspace, each as its lines.
    #[serde(default)]
    files: BTreeMap<String, Vec<String>>,
    /// Commands that make the rest of it, run by bash in the workspace.
    #[serde(default)]
    setup: Vec<String>,
    /// The user's settings.
    #[serde(default)]
    settings: Option<Value>,
    /// Pages that are served on this machine; `SITE` in an input or an option is their address, `SITE_HOST`
    /// its host.
    #[serde(default)]
    site: BTreeMap<String, String>,
    /// More options of `haft run`.
    #[serde(default)]
    options: Vec<String>,
    /// Environment of `haft run`.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Calls that go before, each `{"TOOL": input}`.
    #[serde(default)]
    before: Vec<BTreeMap<String, Value>>,
    /// What the call declares, in words, where only the session that it is made in can say it.
    #[serde(default)]
    pub(crate) declares: Option<String>,
    /// The call that is shown.
    pub(crate) input: Value,
    /// Turns of the model in other conversations (those of agents), after what the main one says.
    #[serde(default)]
    cases: Vec<Value>,
    /// What differs from run to run: what stands for it, and the expression that finds it.
    #[serde(default)]
    differs: BTreeMap<String, String>,
    /// Whether the call is meant to fail.
    #[serde(default)]
    fails: bool,
    /// Programs without which it can't be played; any of those between bars will do.
    #[serde(default)]
    needs: Vec<String>,
}

/// What a played example came to.
#[derive(Debug)]
pub(crate) struct Played {
    /// What the model got back.
    pub(crate) output: String,
    /// What it declared, as `haft check` says it.
    pub(crate) effects: Value,
    /// The tool in the list of `haft tools --format json`.
    pub(crate) row: Value,
    /// What a tracer wrote to `trace.txt`.
    pub(crate) trace: String,
}

/// The path of an installed program.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os(PATH).unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The examples by the names of their tools.
pub(crate) fn all() -> BTreeMap<String, Example> {
    let mut examples = BTreeMap::new();
    for entry in std::fs::read_dir(crate_path("../../docs/tools/examples")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let example =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        examples.insert(path.file_stem().unwrap().to_str().unwrap().to_owned(), example);
    }
    examples
}

impl Example {
    /// Plays it; `wrap` may put another program before `haft`.
    pub(crate) fn play(&self, tool: &str, wrap: impl FnOnce(Command, &Room) -> Command) -> Played {
        let (room, site) = self.prepare(tool);
        let effects =
            self.ask(tool, &room, &site, &["check", tool, &self.input.to_string(), "--output", "json"]);
        let row = self.row_in(tool, &room, &site);
        let (ran, trace) = self.run(self.script(tool, Some(&self.input)), &room, &site, wrap);
        let output = self.output(tool, &ran);
        Played { output: self.same(&site.unfill(&output)), effects: effects["effects"].clone(), row, trace }
    }

    /// Plays the same session without the call; what a tracer wrote.
    pub(crate) fn play_without_the_call(
        &self,
        tool: &str,
        wrap: impl FnOnce(Command, &Room) -> Command,
    ) -> String {
        let (room, site) = self.prepare(tool);
        self.run(self.script(tool, None), &room, &site, wrap).1
    }

    /// The tool in the list of tools of its session.
    pub(crate) fn row(&self, tool: &str) -> Value {
        let (room, site) = self.prepare(tool);
        self.row_in(tool, &room, &site)
    }

    fn row_in(&self, tool: &str, room: &Room, site: &Site) -> Value {
        let rows = self.ask(tool, room, site, &["tools", "--format", "json", "--all"]);
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == tool);
        row.cloned().unwrap_or_else(|| panic!("{tool} isn't in the list of tools"))
    }

    /// Everything that there is before the session.
    fn prepare(&self, tool: &str) -> (Room, Site) {
        let room = Room::empty();
        let site = Site::serve(&self.site);
        for (path, lines) in &self.files {
            let path = format!("work/{path}");
            room.write(&path, &(lines.join("\n") + "\n"));
            // One time for all: tools that sort by it must not show how fast the files were written.
            let file = File::options().write(true).open(room.path(&path)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
        }
        for line in &self.setup {
            let mut bash = Command::new("bash");
            bash.args(["-ec", line]).current_dir(room.path("work")).env("HOME", room.path("home"));
            let output = bash.output().unwrap();
            assert!(output.status.success(), "{tool}: {line}: {}", String::from_utf8_lossy(&output.stderr));
        }
        if let Some(settings) = &self.settings {
            room.write("home/.config/haft/settings.json", &site.fill(&settings.to_string()));
        }
        (room, site)
    }

    /// Runs the session; what came of it, and what a tracer wrote.
    fn run(
        &self,
        script: Value,
        room: &Room,
        site: &Site,
        wrap: impl FnOnce(Command, &Room) -> Command,
    ) -> (Ran, String) {
        room.write("script.json", &site.fill(&script.to_string()));
        let script = room.path("script.json").display().to_string();
        let args = ["run", "--script", &script, "--output", "stream-json", "an example"];
        let ran = room.run(wrap(self.command(room, site, &args), room), "");
        let trace = std::fs::read_to_string(room.path("trace.txt")).unwrap_or_default();
        (ran, room.plain(&trace))
    }

    /// Equal for examples that are the same session without their calls.
    pub(crate) fn session_key(&self) -> String {
        let Example { files, setup, settings, site, options, env, before, cases, .. } = self;
        format!("{files:?} {setup:?} {settings:?} {site:?} {options:?} {env:?} {before:?} {cases:?}")
    }

    /// What this machine lacks for it.
    pub(crate) fn missing(&self) -> Option<&str> {
        let is_there = |name: &str| find_program(name).is_some();
        self.needs.iter().map(String::as_str).find(|any| !any.split('|').any(is_there))
    }

    /// `haft` in the room, as the example wants it.
    fn command(&self, room: &Room, site: &Site, args: &[&str]) -> Command {
        let options = self.options.iter().map(String::as_str);
        let args: Vec<String> = args[..1]
            .iter()
            .copied()
            .chain(options)
            .chain(args[1..].iter().copied())
            .map(|arg| site.fill(arg))
            .collect();
        let mut command = room.haft(&args);
        command.envs(self.env.iter().map(|(name, value)| (name, site.fill(value))));
        command.env(PATH, std::env::var_os(PATH).unwrap()).env("TZ", "UTC").env("TMPDIR", room.path("tmp"));
        // It starts in a third of the time of the whole browser, which `browser` tests.
        if let Some(shell) = find_program("chromium-headless-shell") {
            command.env("HAFT_CHROMIUM", shell);
        }
        command
    }

    /// What `haft` answers in JSON.
    fn ask(&self, tool: &str, room: &Room, site: &Site, args: &[&str]) -> Value {
        let ran = room.run(self.command(room, site, args), "");
        let said = self.same(&site.unfill(&ran.stdout));
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{tool}: {args:?}: {ran:?}"))
    }

    /// What came back of the call.
    fn output(&self, tool: &str, ran: &Ran) -> String {
        let lines = ran.stdout.replace("\"duration_ms\":T", "\"duration_ms\":0");
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let call = format!("toolu_scripted_{}_0", self.before.len() + 1);
        let mut finished = events.filter(|event| {
            event["type"] == "tool_finished" && event["call_id"] == call && event["agent"] == "main"
        });
        let Some(found) = finished.next() else {
            panic!("{tool}: no result of its call\n{}\n{}", ran.stdout, ran.stderr);
        };
        let result = &found["result"];
        let output = match &result["output"] {
            _ if result["is_error"] == true => result["error"]["message"].as_str().unwrap().to_owned(),
            Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap(),
        };
        assert_eq!(result["is_error"], self.fails, "{tool}: {output}\n{}", ran.stderr);
        output
    }

    /// What the model says: the calls before, the call with this input if there is one, and the end.
    fn script(&self, tool: &str, input: Option<&Value>) -> Value {
        let call = |name: &str, input: &Value| json!({"tool_calls": [{"name": name, "input": input}]});
        let before = self.before.iter().flatten().map(|(name, input)| call(name, input));
        let mut turns: Vec<Value> = before.collect();
        turns.extend(input.map(|input| call(tool, input)));
        turns.push(json!({"text": "Done."}));
        if let Some(first) = turns.first_mut().filter(|_| !self.cases.is_empty()) {
            first["cases"] = json!(self.cases);
        }
        json!({"turns": turns})
    }

    /// A text without what differs from run to run.
    fn same(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (stands, expression) in &self.differs {
            let expression = regex::Regex::new(expression).unwrap();
            text = expression.replace_all(&text, stands.as_str()).into_owned();
        }
        text
    }
}

/// A few pages on a port of this machine; its thread ends with the test.
struct Site {
    address: Option<String>,
}

impl Site {
    fn serve(pages: &BTreeMap<String, String>) -> Site {
        if pages.is_empty() {
            return Site { address: None };
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let pages = pages.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let pages = pages.clone();
                thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let Some(Ok(first)) = lines.next() else { return };
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                    let path = first.split(' ').nth(1).unwrap_or("/");
                    let path = path.split('?').next().unwrap_or("/");
                    let (status, page) = match pages.get(path) {
                        Some(page) => ("200 OK", page.as_str()),
                        None => ("404 Not Found", "not here"),
                    };
                    let kind = match page.trim_start().chars().next() {
                        Some('{' | '[') => "application/json",
                        _ => "text/html; charset=utf-8",
                    };
                    let head = format!(
                        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                        page.len()
                    );
                    let _ = stream.write_all((head + page).as_bytes());
                });
            }
        });
        Site { address: Some(address) }
    }

    fn fill(&self, text: &str) -> String {
        let Some(address) = &self.address else { return text.to_owned() };
        let port = address.rsplit(':').next().unwrap();
        text.replace("SITE_PORT", port).replace("SITE", &format!("http://localhost:{port}"))
    }

    fn unfill(&self, text: &str) -> String {
        let Some(address) = &self.address else { return text.to_owned() };
        let port = address.rsplit(':').next().unwrap();
        text.replace(&format!("localhost:{port}"), "localhost:8080")
    }
}
