//! Files that options, scripts and operands name, and what a `cd` changes about them.

use crate::commands::{found, last, may_change, reads_only};

fn effects(command: &str) -> String {
    match &last(command).effects {
        Some(effects) => effects.to_string(),
        None => "?".to_owned(),
    }
}

/// What is written, without what else is known.
fn writes(command: &str) -> String {
    let found = found(command).commands;
    let paths = found.iter().flat_map(|one| &one.effects).flat_map(|effects| &effects.writes);
    paths.map(|set| set.path.display().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn writes_that_options_name() {
    for (command, expected) in [
        ("sed 's/a/b/w /out' x", "/out"),
        ("sed -n 'w /out' x", "/out"),
        ("sed -ne '/a/w /out' x", "/out"),
        ("sed -e p -e 's/a/b/gw /out' x", "/out"),
        ("sed -i s/a/b/ /x", "/x"),
        ("sed --in-place=.bak s/a/b/ /x", "/x"),
        ("sed -n -i.bak p /x /y", "/x /y"),
        ("sort -o /out x", "/out"),
        ("sort -uo/out x", "/out"),
        ("sort --output=/out x", "/out"),
        ("sort --out /out x", "/out"),
        ("sort x -o /out", "/out"),
        ("find . -fprint /out", "/out"),
        ("find . -fprintf /out %p", "/out"),
        ("find . -fls /out", "/out"),
        ("cp -t /d a", "/d/a /d"),
        ("cp -rt /d a", "/d/a /d"),
        ("cp --target-directory=/d a b", "/d/a /d/b /d"),
        ("mv -t /d a", "/d/a /d"),
        ("ln -st /d a", "/d/a /d"),
        ("install -t /d a", "/d"),
        ("install -m 755 a /d/b", "/d/b"),
        ("install -d /d", "/d"),
        ("tar -cf /a.tar x", "/a.tar"),
        ("tar czf /a.tar x", "/a.tar"),
        ("tar --create --file=/a.tar x", "/a.tar"),
        ("tar -xf a.tar -C /d", "/d"),
        ("tar xf a.tar --directory /d", "/d"),
        ("tar xfC a.tar /d", "/d"),
        ("curl -o /out x.io", "/out"),
        ("curl -so/out x.io", "/out"),
        ("curl --output /out x.io", "/out"),
        ("curl -O x.io/a.sh", "a.sh"),
        ("curl -D /h -c /j x.io", "/h /j"),
        ("curl --trace /t x.io", "/t"),
        ("curl --output-dir /d -O x.io/a", "/d"),
        ("wget -O /out x.io", "/out"),
        ("wget -P /d x.io", "/d"),
        ("wget -o /log -O /out x.io", "/log /out"),
        ("wget x.io/a.sh", "a.sh"),
        ("wget x.io", "index.html"),
        ("git diff --output=/out", "/out"),
        ("git log --output /out", "/out"),
        ("git format-patch -o /d HEAD", "/d"),
        ("git archive -o /a.zip HEAD", "/a.zip"),
        ("git archive --output=/a.zip HEAD", "/a.zip"),
        ("git bundle create /b HEAD", "/b"),
        ("git worktree add /w main", "/w"),
        ("git worktree add -b x /w", "/w"),
        ("git clone x.io:a/b /d", "/d"),
        ("git init /d", "/d"),
        ("git -C /r diff --output=x", "/r/x"),
        ("git config --global user.name x", "/home/me/.gitconfig"),
        ("git config -f /c user.name x", "/c"),
        ("split x /d/p", "/d/paa"),
        ("csplit -f /d/p x 5", "/d/p00"),
        ("tee /out", "/out"),
        ("dd if=/a of=/b", "/b"),
        ("rsync -a a /d", "/d"),
        ("rsync -a h:a /d", "/d"),
        ("rsync -a --log-file=/l a h:b", "/l"),
        ("scp h:a /d", "/d"),
        ("unzip a.zip -d /d", "/d"),
        ("unzip -d/d a.zip", "/d"),
        ("7z x a.7z -o/d", "/d"),
        ("gcc -o /out x.c", "/out"),
        ("gcc x.c -o/out", "/out"),
        ("openssl req -keyout /k -out /c", "/k /c"),
        ("uniq x /out", "/out"),
        ("shuf -o /out x", "/out"),
        ("iconv -o /out x", "/out"),
        ("xxd x /out", "/out"),
        ("xxd -r x /out", "/out"),
        ("patch -o /out x", "/out x"),
        ("sdiff -o /out a b", "/out"),
        ("tree -o /out", "/out"),
        ("gpg -o /out -d x", "/out"),
        ("chmod 777 /x", "/x"),
        ("chown -R me /x", "/x"),
        ("truncate -s 0 /x", "/x"),
        ("pip install -t /d x", "/d"),
        ("npm --prefix /d install", "/d"),
        ("strace -o /log ls", "/log"),
        ("script -c ls /log", "/log"),
        ("go build -o /out", "/out"),
        ("zip /a.zip x", "/a.zip"),
    ] {
        assert_eq!(writes(command), expected, "{command}: {}", effects(command));
        may_change(command);
    }
    assert_eq!(effects("find /d -delete"), "may touch anything · reads /d · deletes /d");
    assert_eq!(effects("rsync -a --delete a /d"), "may touch anything · reads a · writes /d · deletes /d");
    assert_eq!(effects("unlink /x"), "may touch anything · deletes /x");
    // Nothing is named, or it isn't a file.
    for command in [
        "sort x",
        "sort -k 2 x",
        "uniq x",
        "xxd x",
        "curl x.io",
        "curl -o - x.io",
        "wget -O - x.io",
        "wget -qO- x.io",
        "tar tf a",
        "tar -xf a",
        "git diff",
        "git log --oneline",
        "git archive HEAD",
        "gcc -c x.c",
        "gcc -fno-omit-frame-pointer x.c",
        "openssl x509 -noout",
        "find . -name -fprint",
        "unzip -l a",
        "scp a h:b",
        "rsync a h:b",
        "sed -n 's/a/b/p' x",
        "sed 's/a/b/w /dev/stdout' x",
        "git config --global --get user.name",
        "git config --global user.name",
    ] {
        assert_eq!(writes(command), "", "{command}: {}", effects(command));
    }
}

#[test]
fn writes_to_places_that_are_not_known() {
    for command in [
        "sort -o $X y",
        "sort -o \"$X\" y",
        "sort --output=$X y",
        "curl -o $X x.io",
        "curl -o ~you/x x.io",
        "tar -cf $X y",
        "tar -xf a -C $D",
        "wget -O \"$X\" x.io",
        "git diff --output=$X",
        "gcc -o $X y.c",
        "dd of=$X",
        "cd $d && sort -o x y",
        "cd $d && sed -n 'w x' y",
        "find . -fprint $X",
        "unzip a -d $D",
        "git -C $D diff --output=x",
        "tar -xPf a",
    ] {
        assert!(last(command).exact_only.is_some(), "{command}");
        assert!(last(command).effects.is_none_or(|effects| effects.unknown), "{command}");
    }
    for command in [
        "sort -o x \"a$Y\"",
        "curl -o x \"$U\"",
        "wget -O x $U",
        "gcc -o x $FLAGS y.c",
        "chmod +x \"$f\"",
        "dd if=$X of=y",
        "cd d && sort -o x y",
    ] {
        assert_eq!(last(command).exact_only, None, "{command}");
    }
}

#[test]
fn after_a_move_everything_counts_from_there() {
    assert_eq!(effects("cd /out && touch x"), "writes /out/x");
    assert_eq!(effects("cd /out && cat x"), "reads /out/x");
    assert_eq!(effects("cd /out && sort -o x y"), "may touch anything · reads /out/y, /out · writes /out/x");
    assert_eq!(effects("cd /out && make"), "may touch anything · reads /out");
    assert_eq!(effects("cd .. && npm test"), "may touch anything · reads ..");
    assert_eq!(effects("cd /out && ./run x"), "may touch anything · reads /out/./run, /out");
    assert_eq!(effects("cd /out; ./run"), "may touch anything · reads /out/./run, ./run, /out");
    assert_eq!(effects("git -C /out push"), "may touch anything · reads /out");
    assert_eq!(effects("make -C /out all"), "may touch anything · reads /out");
    assert_eq!(effects("git --git-dir=/out/.git log"), "may touch anything · reads /out/.git, .");
    // Where it begins nothing is added.
    for command in ["make", "./run x", "(cd /out); make", "cd /repo/app && make", "cd /out | make"] {
        assert_eq!(effects(command), "?", "{command}");
    }
    assert_eq!(effects("cd /repo/app && touch x"), "writes x");
    // A program by its name in a folder that isn't known.
    assert!(last("cd $d && ./run").exact_only.is_some());
    assert_eq!(last("cd d && ./run").exact_only, None);
    assert_eq!(last("cd $d && run").exact_only, None);
    for command in [
        "cd /out && git status",
        "cd d && git log",
        "cd .. && git diff",
        "cd $d && git status",
        "cd d; git status",
        "(cd d && git status)",
        "pushd d && git status",
    ] {
        may_change(command);
    }
    reads_only("cd /repo/app && git status");
    reads_only("cd d && ls");
    reads_only("(cd d && ls); git status");
    assert!(found("cd /out && rm -rf x").critical().is_none());
}
