//! The table itself, in order of names.

use crate::NameDepth::{self, Any, Top};
use crate::ProtectedName;
use crate::ProtectionClass::{self, Held, Repository, Reviewed};

const fn row(
    name: &'static str,
    depth: NameDepth,
    class: ProtectionClass,
    executed: &'static str,
) -> ProtectedName {
    ProtectedName { name, depth, class, executed, plain: &[], plain_for_commands: &[] }
}

impl ProtectedName {
    const fn with_plain(mut self, plain: &'static [&'static str]) -> ProtectedName {
        self.plain = plain;
        self
    }

    const fn with_plain_for_commands(mut self, plain: &'static [&'static str]) -> ProtectedName {
        self.plain_for_commands = plain;
        self
    }
}

/// All protected names. Compared as [`folded`](crate::folded), so they are in lower case.
pub const TABLE: &[ProtectedName] = &[
    row("*.code-workspace", Top, Held, "VS Code: settings and tasks, when the file is opened"),
    row(".bash_aliases", Top, Reviewed, "bash, when a shell starts in that home folder"),
    row(".bash_login", Top, Reviewed, "bash, at login"),
    row(".bash_logout", Top, Reviewed, "bash, at logout"),
    row(".bash_profile", Top, Reviewed, "bash, at login"),
    row(".bashrc", Top, Reviewed, "bash, when a shell starts in that home folder"),
    row(".bazelrc", Top, Reviewed, "Bazel, on each build"),
    row(".bundle/config", Top, Reviewed, "Bundler, on each command"),
    row(".cargo", Top, Reviewed, "Cargo: wrappers, runners and registries, on each build")
        .with_plain_for_commands(&[
            ".crates.toml",
            ".crates2.json",
            ".global-cache",
            ".package-cache",
            ".package-cache-mutate",
            "git",
            "registry",
        ]),
    row(".claude", Top, Held, "Claude Code and haft: settings, hooks and agents, when a session starts")
        .with_plain(&["worktrees"]),
    row(".claude.json", Top, Held, "Claude Code: servers, when a session starts"),
    row(".codex", Top, Held, "Codex: settings and servers, when a session starts"),
    row(".config/git", Top, Reviewed, "git, if the folder is the home folder"),
    row(".cursor", Top, Held, "Cursor: rules, hooks and servers, when the folder is opened"),
    row(
        ".devcontainer",
        Top,
        Reviewed,
        "VS Code and others: commands on the host, when the container is built",
    ),
    row(".dir-locals.el", Top, Held, "Emacs, when a file below is opened"),
    row(".envrc", Any, Held, "direnv, on `cd`"),
    row(".exrc", Top, Held, "vi, Vim and Neovim, when started in the folder"),
    row(".gdbinit", Top, Reviewed, "gdb, when started in the folder"),
    row(".gemini", Top, Held, "Gemini CLI: settings and servers, when a session starts"),
    row(".ghci", Top, Reviewed, "GHCi, when started in the folder"),
    row(".git", Any, Repository, "git, on each command"),
    row(".gitattributes", Top, Reviewed, "git: filters and drivers, on `status` and `checkout`"),
    row(".gitconfig", Top, Reviewed, "git, if the folder is the home folder"),
    row(".github/workflows", Top, Reviewed, "GitHub Actions, after a push"),
    row(".gitmodules", Top, Reviewed, "git, on `submodule update`"),
    row(".haft", Top, Held, "haft: settings, hooks and tools, when a session starts")
        .with_plain(&["worktrees"]),
    row(".hg/hgrc", Top, Held, "Mercurial: hooks and extensions, on `hg status`"),
    row(".husky", Top, Held, "git, by `core.hooksPath`, on each commit"),
    row(".idea", Top, Held, "JetBrains editors, when the folder is opened"),
    row(".inputrc", Top, Reviewed, "readline, when a shell starts in that home folder"),
    row(".kiro", Top, Held, "Kiro: hooks and servers, when the folder is opened"),
    row(".lldbinit", Top, Reviewed, "LLDB, when started in the folder"),
    row(".mcp.json", Top, Held, "Claude Code, haft and others: servers, when a session starts"),
    row(".mise.toml", Top, Held, "mise, on `cd`"),
    row(".mvn", Top, Reviewed, "Maven: extensions and JVM options, on each build"),
    row(".npmrc", Top, Reviewed, "npm, pnpm and Yarn: registries and scripts, on each command"),
    row(".nvim.lua", Top, Held, "Neovim, when started in the folder"),
    row(".nvimrc", Top, Held, "Neovim, when started in the folder"),
    row(".opencode", Top, Held, "opencode: agents and plugins, when a session starts"),
    row(".pdbrc", Top, Reviewed, "pdb, when Python's debugger starts in the folder"),
    row(".pnp.cjs", Top, Reviewed, "Node.js, by Yarn, on each start"),
    row(".pre-commit-config.yaml", Top, Reviewed, "pre-commit, on each commit"),
    row(".profile", Top, Reviewed, "the shell, at login"),
    row(".pypirc", Top, Reviewed, "twine: where packages are uploaded"),
    row(".ripgreprc", Top, Reviewed, "ripgrep, where `RIPGREP_CONFIG_PATH` names it"),
    row(".rprofile", Top, Reviewed, "R, when started in the folder"),
    row(".vscode", Top, Held, "VS Code and others: settings, tasks and servers, when the folder is opened"),
    row(".yarn", Top, Reviewed, "Yarn: its own program and plugins, on each command")
        .with_plain_for_commands(&["build-state.yml", "cache", "install-state.gz", "unplugged"]),
    row(".yarnrc", Top, Reviewed, "Yarn, on each command"),
    row(".yarnrc.yml", Top, Reviewed, "Yarn: its own program and plugins, on each command"),
    row(".zed", Top, Held, "Zed: settings, tasks and servers, when the folder is opened"),
    row(".zlogin", Top, Reviewed, "zsh, at login"),
    row(".zlogout", Top, Reviewed, "zsh, at logout"),
    row(".zprofile", Top, Reviewed, "zsh, at login"),
    row(".zshenv", Top, Reviewed, "zsh, when a shell starts in that home folder"),
    row(".zshrc", Top, Reviewed, "zsh, when a shell starts in that home folder"),
    row("lefthook.yml", Top, Reviewed, "Lefthook, on each commit"),
    row("mise.toml", Top, Held, "mise, on `cd`"),
    row("opencode.json", Top, Held, "opencode: servers and plugins, when a session starts"),
    row("rust-toolchain.toml", Top, Reviewed, "rustup: which tool chain is run, on each build"),
];
