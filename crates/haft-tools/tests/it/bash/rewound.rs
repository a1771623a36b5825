//! What commands are known to overwrite and remove is kept before, and `Rewind` brings it back.

use std::fs;

use haft::ports::TaskId;
use haft::ports::Tasks as _;
use serde_json::json;

use super::Scene;

impl Scene {
    /// The names and contents of all files.
    fn files(&self) -> Vec<(String, String)> {
        let mut open = vec![self.path("")];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    open.push(entry)
                } else {
                    let name = entry.strip_prefix(self.path("")).unwrap().display().to_string();
                    found.push((name, fs::read_to_string(&entry).unwrap()));
                }
            }
        }
        found.sort();
        found
    }
}

#[tokio::test]
async fn rewind_restores_what_a_command_is_known_to_change() {
    for command in [
        "echo new > a",
        "echo more >> a; rm b",
        "rm a b",
        "rm -rf d",
        "rm -r d/e; touch x",
        "mv a c",
        "mv d f",
        "cp a b",
        "cp a new",
        "sed -i s/one/two/ a b",
        "tee a < b",
        "find . -name '*.o' -delete",
        "cd d && rm c && echo 1 > ../a",
        "f=a; rm $f",
    ] {
        let scene = Scene::new();
        fs::create_dir_all(scene.path("d/e")).unwrap();
        for name in ["a", "b", "d/c", "d/e/x.o"] {
            fs::write(scene.path(name), format!("one {name}\n")).unwrap();
        }
        let before = scene.files();
        scene.bash(command).await;
        let after = scene.files();
        assert_ne!(before, after, "{command}");
        let list = scene.says("Rewind", json!({"action": "list"})).await;
        assert!(list.contains("by Bash, turn 1"), "{command}: {list}");
        let restored = scene.says("Rewind", json!({"action": "restore", "to": 1})).await;
        let moved = scene.files();
        if command == "mv d f" {
            // Files of a folder that is made are not known by name.
            assert!(before.iter().all(|file| moved.contains(file)), "{command}: {restored}");
        } else {
            assert_eq!(moved, before, "{command}: {restored}");
        }
    }
}

#[tokio::test]
async fn too_much_is_not_kept() {
    let scene = Scene::new();
    fs::create_dir(scene.path("d")).unwrap();
    (0..=haft::files::checkpoint_plan::CHECKPOINT_FILES_MAX)
        .for_each(|number| fs::write(scene.path(&format!("d/{number}")), "x").unwrap());
    scene.bash("rm -r d").await;
    assert!(!scene.says("Rewind", json!({"action": "list"})).await.contains("Bash"));
}

#[tokio::test]
async fn what_a_command_in_the_background_changes_is_kept_as_it_starts() {
    let scene = Scene::new();
    fs::write(scene.path("a"), "one\n").unwrap();
    let started = json!({"command": "echo two > a", "run_in_background": true});
    scene.says("Bash", started).await;
    scene.tasks.ended(TaskId(1)).await;
    assert_eq!(fs::read_to_string(scene.path("a")).unwrap(), "two\n");
    scene.says("Rewind", json!({"action": "restore", "to": 1, "force": true})).await;
    assert_eq!(fs::read_to_string(scene.path("a")).unwrap(), "one\n");
}
