//! `NotebookEdit` through an engine.

use haft::ErrorKind;
use serde_json::{Value, json};

use crate::SAMPLE_NOTEBOOK as SAMPLE;
use crate::room::Room;

fn edit(fields: Value) -> Value {
    let mut input = json!({"notebook_path": "n.ipynb"});
    input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    input
}

#[test]
fn cells_are_replaced_inserted_and_deleted() {
    let room = Room::with(&[("n.ipynb", SAMPLE)]);
    assert_eq!(
        room.text("NotebookEdit", edit(json!({"cell_id": "calc", "new_source": "print(43)"}))),
        "`n.ipynb`: cell calc replaced (+1 −1)"
    );
    assert!(room.content("n.ipynb").contains("print(43)") && room.content("n.ipynb").contains("1.50"));
    let said = room.text(
        "notebook_edit",
        edit(json!({"cell_id": "intro", "new_source": "x", "edit_mode": "insert", "cell_type": "markdown"})),
    );
    let id = said.strip_prefix("`n.ipynb`: cell ").unwrap().split(' ').next().unwrap().to_owned();
    assert!(said.ends_with("inserted after intro"), "{said}");
    room.text("NotebookEdit", edit(json!({"new_source": "first", "edit_mode": "insert"})));
    let read = room.text("Read", json!({"file_path": "n.ipynb"}));
    let order: Vec<usize> = ["first", "intro", &id, "calc"].map(|part| read.find(part).unwrap()).into();
    assert!(order.is_sorted(), "{read}");
    room.text("NotebookEdit", edit(json!({"cell_id": "cell-0", "edit_mode": "delete"})));
    room.text("NotebookEdit", edit(json!({"cell_id": id, "edit_mode": "delete", "new_source": ""})));
    room.text("Rewind", json!({"action": "restore", "to": 1}));
    assert_eq!(room.content("n.ipynb"), SAMPLE);
}

#[test]
fn what_goes_wrong_is_told() {
    let room = Room::with(&[("n.ipynb", SAMPLE), ("bad.ipynb", "x")]);
    let check = |input: Value, kind: ErrorKind, words: &str| {
        assert_eq!(room.error("NotebookEdit", input), (kind, words.to_owned()));
        assert_eq!(room.content("n.ipynb"), SAMPLE);
    };
    check(
        edit(json!({"cell_id": "nope", "new_source": "x"})),
        ErrorKind::Failed,
        "`n.ipynb` has no cell `nope`; it has `intro`, `calc`",
    );
    check(
        edit(json!({"new_source": "x"})),
        ErrorKind::InvalidInput,
        "`cell_id` is missing; give the id of the cell, as Read shows it",
    );
    check(
        edit(json!({"cell_id": "calc", "new_source": "print(42)"})),
        ErrorKind::Failed,
        "cell calc of `n.ipynb` has this source already; nothing was changed",
    );
    check(
        json!({"notebook_path": "a.py", "cell_id": "1", "new_source": "x"}),
        ErrorKind::InvalidInput,
        "`notebook_path` does not end with `.ipynb`; for other files use Edit",
    );
    let (_, words) = room.error("NotebookEdit", json!({"notebook_path": "bad.ipynb", "cell_id": "1"}));
    assert!(words.starts_with("`bad.ipynb` can't be edited as a notebook: it is no valid JSON"), "{words}");
    room.text("Read", json!({"file_path": "n.ipynb"}));
    room.put("n.ipynb", SAMPLE.replace("42", "44"));
    let (_, words) = room.error("NotebookEdit", edit(json!({"cell_id": "calc", "new_source": "x"})));
    assert!(words.starts_with("`n.ipynb` has changed on disk since it was read"), "{words}");
}
