//! Known names: keys of other programs' settings, and environment variables that a workspace can't set.

/// Top-level keys of Claude Code's settings that haft doesn't use. They are accepted without a warning,
/// because users share one file between both programs.
const ELSEWHERE: &str = "
    agent allowManagedMcpServersOnly alwaysThinkingEnabled apiKeyHelper attribution autoMemoryDirectory
    autoMode autoUpdatesChannel availableModels awsAuthRefresh awsCredentialExport blockedMarketplaces
    channelsEnabled claudeMdExcludes cleanupPeriodDays companyAnnouncements defaultShell
    disableDeepLinkRegistration effortLevel enabledPlugins extraKnownMarketplaces
    fastModePerSessionOptIn feedbackSurveyRate fileSuggestion forceLoginMethod forceLoginOrgUUID
    gcpAuthRefresh includeCoAuthoredBy includeGitInstructions language minimumVersion model
    modelOverrides otelHeadersHelper outputStyle plansDirectory pluginConfigs pluginTrustMessage
    preferredNotifChannel prefersReducedMotion promptSuggestionEnabled respectGitignore
    showClearContextOnPlanAccept showThinkingSummaries showTurnDuration
    skipDangerousModePermissionPrompt skipWebFetchPreflight spinnerTipsEnabled spinnerTipsOverride
    spinnerVerbs statusLine strictKnownMarketplaces strictPluginOnlyCustomization teammateMode
    terminalProgressBarEnabled theme voiceEnabled worktree
";

/// Returns the keys of Claude Code that haft doesn't use.
pub(crate) fn foreign_keys() -> impl Iterator<Item = &'static str> {
    ELSEWHERE.split_whitespace()
}

/// Names of variables that a workspace can't set, in upper case. Each of them decides which program runs,
/// what it loads, which certificates it trusts or where it sends data.
const REFUSED: &str = "
    BASHOPTS BASH_ENV BROWSER CARGO_HOME CC CDPATH CODEX_HOME COMSPEC CURL_CA_BUNDLE CURL_HOME CXX
    DENO_CERT DOCKER_HOST EDITOR ENV GCONV_PATH GLIBC_TUNABLES GLOBIGNORE GOFLAGS GOPATH GOPROXY GOROOT
    GRADLE_OPTS HOME HOSTALIASES IFS JAVA_HOME JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS LESSCLOSE LESSOPEN
    LOCPATH LOGNAME MAKEFLAGS MANPAGER MAVEN_OPTS NLSPATH NODE_EXTRA_CA_CERTS NODE_OPTIONS NODE_PATH
    NODE_TLS_REJECT_UNAUTHORIZED OPENSSL_CONF OPENSSL_MODULES PAGER PATH PATHEXT PERL5DB PERL5LIB
    PERL5OPT PERLLIB PHPRC PROMPT_COMMAND PS4 REQUESTS_CA_BUNDLE RESOLV_HOST_CONF RES_OPTIONS
    RIPGREP_CONFIG_PATH RUSTC RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER SHELL SHELLOPTS TMP TEMP TMPDIR USER
    VISUAL WGETRC ZDOTDIR _JAVA_OPTIONS _
";

/// Prefixes of such names.
const REFUSED_BEGINNINGS: &str = "
    ANTHROPIC_ AWS_ AZURE_ BASH_FUNC_ CLAUDE_ DBUS_ DOTNET_ DYLD_ GCP_ GEMINI_ GH_ GITHUB_ GIT_ GOOGLE_
    HAFT_ LD_ MALLOC_ MCP_ NPM_CONFIG_ OPENAI_ OTEL_ PIP_ PYTHON RUBY SSH_ SSL_ UV_ XDG_ CARGO_TARGET_
";

/// Substrings of such names: endpoints, proxies and secrets.
const REFUSED_PARTS: &str = "
    APIKEY API_BASE API_KEY BASE_URL CREDENTIAL ENDPOINT PASSWD PASSWORD PRIVATE_KEY PROXY SECRET TOKEN
    _HOST
";

/// Returns whether a workspace can't set an environment variable, even if the workspace is trusted.
pub fn is_refused_variable(name: &str) -> bool {
    let name = name.to_uppercase();
    let odd = name.is_empty() || name.contains(['=', '\0']);
    odd || REFUSED.split_whitespace().any(|refused| name == refused)
        || REFUSED_BEGINNINGS.split_whitespace().any(|beginning| name.starts_with(beginning))
        || REFUSED_PARTS.split_whitespace().any(|part| name.contains(part))
}

/// Returns the known name closest to an unknown one, if one is close enough.
pub(crate) fn closest_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| -> Vec<char> { text.to_lowercase().chars().take(64).collect() };
    let wanted = letters(name);
    let near = known.map(|known| (haft::spelling::edit_distance(&wanted, &letters(known)), known));
    near.filter(|(edits, known)| *edits <= 2.max(known.len() / 4)).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_about_programs_and_addresses_is_refused() {
        let names = "PATH Path LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES GIT_SSH_COMMAND GIT_DIR \
                       ANTHROPIC_BASE_URL OPENAI_BASE_URL ANTHROPIC_API_KEY https_proxy HTTP_PROXY ALL_PROXY \
                       NODE_OPTIONS BASH_ENV PYTHONSTARTUP CLAUDE_CONFIG_DIR HAFT_STATE_DIR CODEX_HOME A=B \
                       MY_SERVICE_TOKEN RUSTC_WRAPPER HOME XDG_CONFIG_HOME SSL_CERT_FILE BASH_FUNC_ls%%";
        for name in names.split_whitespace().chain([""]) {
            assert!(is_refused_variable(name), "{name}");
        }
        let names = "NODE_ENV RUST_LOG CI FOO DATABASE_NAME LC_ALL TZ DEBUG CARGO_TERM_COLOR";
        for name in names.split_whitespace() {
            assert!(!is_refused_variable(name), "{name}");
        }
    }

    #[test]
    fn close_names_are_found() {
        let known = ["allow", "ask", "deny", "defaultMode"];
        let closest = |name: &str| closest_name(name, known.into_iter());
        assert_eq!(closest("alow"), Some("allow"));
        assert_eq!(closest("defaultmode"), Some("defaultMode"));
        assert_eq!(closest("dney"), Some("deny"));
        assert_eq!(closest("somethingElse"), None);
    }
}
