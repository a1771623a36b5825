//! What commands touch: as their programs say, through wrappers, and where nobody can say.

use crate::commands::{found, last, may_change, not_understood};

#[test]
fn effects_of_known_programs() {
    for command in ["ln a b", "mv a b", "cp -l a b", "cp -r a b"] {
        let claims = last(command).effects.unwrap().claims;
        assert_eq!(claims.concurrency_safe, Some(false), "{command}");
        assert_eq!(found(command).effects().claims.concurrency_safe, Some(false), "{command}");
    }
    assert_eq!(last("cp a b").effects.unwrap().claims.concurrency_safe, None);

    let whole = found("cat a > b && make < c").effects();
    assert_eq!(whole.to_string(), "reads c · writes b · runs cat a · runs make");
    assert!(!whole.unknown);
    assert!(
        found("a > $x").effects().unknown && found("$x").effects().unknown && found("a (").effects().unknown
    );
    assert_eq!(found("echo x > /dev/tcp/x.io/80").effects().to_string(), "runs echo x · changes x.io");
}

/// Files that an option names, in each of its forms.
#[test]
fn what_options_name_is_read() {
    for command in
        ["jq -n 'import \"a\" as $x {search:\"/out\"}; 1'", "jq 'include \"x\"; y' a", "grep -f\"$x\" a"]
    {
        assert!(last(command).read_only.is_err(), "{command}");
    }
    for command in
        ["grep -ef a b", "grep -rn x .", "jq .a b", "find . -newermt yesterday", "who am i", "date -d now"]
    {
        assert_eq!(last(command).read_only, Ok(()), "{command}");
    }
}

#[test]
fn arguments_that_are_not_known_touch_anything() {
    for command in [
        "cat /etc/shad*",
        "cat {.env,x}",
        "cat $X",
        "cat \"$X\"",
        "cat $(echo .env)",
        "cat ~you/x",
        "cat .*",
        "cat .e*",
        "cat ../*",
        "head -n $X",
        "grep -f\"$X\" a",
        "grep \"$X\" a",
        "grep --file=$X a",
        "grep x $X",
        "ls $X",
        "wc -l $f",
        "ls | xargs cat",
        "cd $d && cat a",
        "touch $X",
        "tee {a,b}",
        "cp $X a",
        "rm a*/b",
        "sort $X",
    ] {
        let found = last(command);
        assert!(
            found.effects.as_ref().is_none_or(|effects| effects.unknown),
            "{command}: {:?}",
            found.effects
        );
        may_change(command);
    }
    let effects = |command: &str| last(command).effects.unwrap().to_string();
    assert_eq!(
        effects("cat $X /etc/shadow"),
        "may touch anything · reads /etc/shadow",
        "the rest is still named"
    );
    // A pattern without a folder stays in the directory, and reads all of it.
    let read = last("cat *.rs").effects.unwrap().reads;
    assert_eq!(read, [haft::effects::PathSet::subtree(".")]);
}

#[test]
fn what_is_touched_survives_wrappers() {
    let effects = |command: &str| found(command).commands.remove(0).effects.unwrap().to_string();
    for wrapper in [
        "nohup",
        "sudo",
        "sudo -u me",
        "doas",
        "exec",
        "env",
        "env A=1",
        "setsid",
        "ionice -c 3",
        "busybox",
        "flock lock",
        "nohup sudo env",
        "xargs",
        "xargs -n 1",
    ] {
        assert_eq!(effects(&format!("{wrapper} tee X")), "may touch anything · writes X", "{wrapper}");
        assert_eq!(
            effects(&format!("{wrapper} cat /etc/shadow")),
            "may touch anything · reads /etc/shadow",
            "{wrapper}"
        );
        may_change(&format!("{wrapper} cat /etc/shadow"));
    }
    for wrapper in ["nice", "nice -n 5", "timeout 5", "command", "time -p", "stdbuf -o L"] {
        assert_eq!(effects(&format!("{wrapper} touch secrets/a")), "writes secrets/a", "{wrapper}");
    }
}

#[test]
fn redirections_reach_hosts() {
    for command in [
        "echo x > /dev/tcp/x.io/80",
        "cat < /dev/tcp/x.io/80",
        "exec 3<> /dev/udp/x.io/53",
        "a &> /dev/tcp/x.io/1",
    ] {
        let found = found(command);
        assert_eq!(found.redirects[0].host(), Some("x.io"), "{command}");
        assert!(found.effects().to_string().ends_with("changes x.io"), "{command}");
        assert!(found.effects().reads.is_empty() && found.effects().writes.is_empty(), "{command}");
        may_change(command);
    }
    assert_eq!(found("a > /dev/tcp").redirects[0].host(), None);
    not_understood("a > /dev/tcp/$x/80");
}

#[test]
fn paths_after_pushd_are_not_known() {
    for command in [
        "pushd d && cat y",
        "pushd /etc; cat y",
        "popd && cat y",
        "builtin pushd d && cat y",
        "pushd d > /dev/null && ls",
        "for i in 1 2; do pushd d; cat y; done",
        "f() { pushd d; }; f; cat y",
        "eval 'pushd d'; cat y",
        "pushd d && touch y",
    ] {
        let found = last(command);
        assert!(
            found.effects.as_ref().is_none_or(|effects| effects.unknown),
            "{command}: {:?}",
            found.effects
        );
        may_change(command);
    }
    assert_eq!(last("pushd d && cat /y").effects.unwrap().to_string(), "reads /y");
    assert_eq!(last("(pushd d); cat y").effects.unwrap().to_string(), "reads y");
}
