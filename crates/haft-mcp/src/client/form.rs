//! What a server wants to know of the user: a form, shown whole where that can be and else asked field by
//! field, or a page that the user is to open.
//!
//! The user always sees which server asks. A page is shown and never opened by us: what a server names could
//! be anything.

use haft::ports::{AnswerChoice, Asker, FormAnswer, UserForm, UserPage, UserQuestion};
use haft::schema::InputSchema;
use serde_json::{Map, Value, json};
use url::Url;

use crate::limits::{FORM_FIELDS_MAX, FORM_TRIES_MAX};
use crate::text;

const SKIP: &str = "(leave it empty)";

/// Asks for the fields of a form, those that `order` names first and in that order.
///
/// # Errors
/// The form makes no sense, in words for the server.
pub(crate) async fn ask_form(
    asker: &dyn Asker,
    server: &str,
    message: &str,
    schema: &Value,
    order: &[String],
) -> Result<Value, String> {
    let empty = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&empty);
    if fields.len() > FORM_FIELDS_MAX {
        return Err(format!("a form may have {FORM_FIELDS_MAX} fields"));
    }
    if fields.is_empty() {
        let question = form_question(
            format!("The server `{server}` asks: {message}"),
            answer_choices(&["Yes", "No"]),
            false,
        );
        return Ok(match asker.question(&question).await.as_deref() {
            Some([answer]) if answer == "Yes" => json!({"action": "accept", "content": {}}),
            _ => json!({"action": "decline"}),
        });
    }
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    let order = in_order(fields, order);
    if let Some(answer) = ask_whole_form(asker, server, message, schema, &order).await {
        return Ok(answer);
    }
    let mut content = Map::new();
    for name in &order {
        let field = FormField::new(name, &fields[name], required(name));
        match field.ask(asker, server, message).await {
            FieldAnswer::Value(value) => drop(content.insert(name.clone(), value)),
            FieldAnswer::Left => {}
            FieldAnswer::Declined => return Ok(json!({"action": "decline"})),
            FieldAnswer::GaveUp => return Ok(json!({"action": "cancel"})),
        }
    }
    Ok(json!({"action": "accept", "content": content}))
}

/// All fields once, first those of `order`.
fn in_order(fields: &Map<String, Value>, order: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(fields.len());
    for name in order.iter().chain(fields.keys()) {
        if fields.contains_key(name) && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Asks for all fields at once; nothing where that can't be.
async fn ask_whole_form(
    asker: &dyn Asker,
    server: &str,
    message: &str,
    schema: &Value,
    order: &[String],
) -> Option<Value> {
    let mut shown = json!({"type": "object", "properties": schema["properties"]});
    if let Some(required) = schema.get("required").filter(|names| names.is_array()) {
        shown["required"] = required.clone();
    }
    text::clean_schema(&mut shown);
    let checked = InputSchema::of_output(shown.clone()).ok()?;
    let text = format!("The server `{server}` asks: {message}");
    let mut form = UserForm { text, schema: shown, order: order.to_vec() };
    let asked = form.text.clone();
    for _ in 0..FORM_TRIES_MAX {
        let mut values = match asker.form(&form).await {
            FormAnswer::Values(values) => values,
            FormAnswer::Declined => return Some(json!({"action": "decline"})),
            FormAnswer::Dismissed => return Some(json!({"action": "cancel"})),
            _ => return None,
        };
        // What nobody asked for is nobody's matter.
        values.retain(|name, value| !value.is_null() && form.schema["properties"].get(name).is_some());
        let values = Value::Object(values);
        match checked.violations(&values).first() {
            None => return Some(json!({"action": "accept", "content": values})),
            Some(wrong) => form.text = format!("{asked}\n{wrong}"),
        }
    }
    Some(json!({"action": "cancel"}))
}

/// Asks the user to open a page.
///
/// # Errors
/// It is no page that a user should open, in words for the server.
pub(crate) async fn ask_to_open(
    asker: &dyn Asker,
    server: &str,
    message: &str,
    url: &Value,
) -> Result<Value, String> {
    let url = url.as_str().and_then(|url| Url::parse(url).ok()).ok_or("the address can't be read")?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err("only an address with http or https and without a name or password is shown".to_owned());
    }
    let page = UserPage {
        text: format!("The server `{server}` asks you to open a page: {message}"),
        url: text::display_line(url.as_str(), 2_000),
    };
    match asker.page(&page).await {
        FormAnswer::Values(_) => return Ok(json!({"action": "accept"})),
        FormAnswer::Declined => return Ok(json!({"action": "decline"})),
        FormAnswer::Dismissed => return Ok(json!({"action": "cancel"})),
        _ => {}
    }
    let words = format!(
        "The server `{server}` asks you to open a page: {message}\n{}\nIt leads to `{}`. Open it yourself if you trust it.",
        text::display_line(url.as_str(), 2_000),
        url.host_str().unwrap_or("?")
    );
    let answer =
        asker.question(&form_question(words, answer_choices(&["I have opened it", "No"]), false)).await;
    Ok(match answer.as_deref() {
        Some([answer]) if answer != "No" => json!({"action": "accept"}),
        Some(_) => json!({"action": "decline"}),
        None => json!({"action": "cancel"}),
    })
}

fn form_question(text: String, choices: Vec<AnswerChoice>, several: bool) -> UserQuestion {
    UserQuestion { text, choices, several }
}

fn answer_choices(labels: &[&str]) -> Vec<AnswerChoice> {
    labels.iter().map(|label| AnswerChoice { label: (*label).to_owned(), description: None }).collect()
}

/// One field of a form.
struct FormField {
    title: String,
    about: String,
    required: bool,
    /// What an empty answer means.
    default: Option<Value>,
    kind: FieldKind,
}

enum FieldKind {
    Text,
    Number {
        whole: bool,
        from: Option<f64>,
        to: Option<f64>,
    },
    YesNo,
    /// What is chosen, and what the user sees of it.
    One(Vec<(String, String)>),
    Several(Vec<(String, String)>),
}

enum FieldAnswer {
    Value(Value),
    Left,
    Declined,
    GaveUp,
}

impl FormField {
    fn new(name: &str, schema: &Value, required: bool) -> FormField {
        let words = |key: &str| schema[key].as_str().map(|words| text::display_line(words, 500));
        FormField {
            title: words("title").unwrap_or_else(|| text::display_line(name, 100)),
            about: words("description").unwrap_or_default(),
            required,
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            kind: field_kind(schema),
        }
    }

    async fn ask(&self, asker: &dyn Asker, server: &str, message: &str) -> FieldAnswer {
        let mut wrong = String::new();
        for _ in 0..FORM_TRIES_MAX {
            let about = if self.about.is_empty() { String::new() } else { format!(" ({})", self.about) };
            let optional = match (&self.default, self.required) {
                (Some(default), _) => {
                    format!("; if left empty: {}", text::display_line(&default.to_string(), 200))
                }
                (None, true) => String::new(),
                (None, false) => ", optional".to_owned(),
            };
            let words =
                format!("The server `{server}` asks: {message}\n{}{about}{optional}{wrong}", self.title);
            let (mut choices, several) = match &self.kind {
                FieldKind::Text | FieldKind::Number { .. } => (Vec::new(), false),
                FieldKind::YesNo => (answer_choices(&["Yes", "No"]), false),
                FieldKind::One(values) => (titled_choices(values), false),
                FieldKind::Several(values) => (titled_choices(values), true),
            };
            if !choices.is_empty() && !several && (self.default.is_some() || !self.required) {
                choices.push(AnswerChoice { label: SKIP.to_owned(), description: None });
            }
            let Some(answer) = asker.question(&form_question(words, choices, several)).await else {
                return FieldAnswer::Declined;
            };
            match self.read(&answer) {
                Ok(Some(value)) => return FieldAnswer::Value(value),
                Ok(None) if !self.required => return FieldAnswer::Left,
                Ok(None) => wrong = "\nAn answer is needed.".to_owned(),
                Err(words) => wrong = format!("\n{words}"),
            }
        }
        FieldAnswer::GaveUp
    }

    /// The value of an answer; nothing if it was left empty.
    fn read(&self, answer: &[String]) -> Result<Option<Value>, String> {
        let first = answer.first().map(String::as_str).unwrap_or_default();
        let value_of = |values: &[(String, String)], label: &str| {
            let found = values.iter().find(|(value, shown)| shown == label || value == label);
            found.map(|(value, _)| json!(value)).ok_or_else(|| format!("`{label}` can't be chosen."))
        };
        let left_empty = answer.iter().all(|answer| answer.is_empty() || answer == SKIP);
        if left_empty && self.default.is_some() {
            return Ok(self.default.clone());
        }
        if let FieldKind::Several(values) = &self.kind {
            let chosen: Result<Vec<Value>, String> =
                answer.iter().map(|label| value_of(values, label)).collect();
            return chosen.map(|chosen| Some(Value::Array(chosen)));
        }
        if first.is_empty() || first == SKIP {
            return Ok(None);
        }
        match &self.kind {
            FieldKind::Text => Ok(Some(json!(first))),
            FieldKind::YesNo => Ok(Some(json!(matches!(first, "Yes" | "yes" | "y" | "true")))),
            FieldKind::One(values) => value_of(values, first).map(Some),
            FieldKind::Number { whole, from, to } => {
                let wanted = if *whole { "a whole number" } else { "a number" };
                let number = first.trim();
                let value = if *whole {
                    number.parse::<i64>().ok().map(|number| (number as f64, json!(number)))
                } else {
                    number.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| (n, json!(n)))
                };
                let (size, value) = value.ok_or_else(|| format!("`{number}` is not {wanted}."))?;
                if from.is_some_and(|from| size < from) || to.is_some_and(|to| size > to) {
                    let end = |end: Option<f64>| end.map_or("any".to_owned(), |end| end.to_string());
                    return Err(format!("It has to be between {} and {}.", end(*from), end(*to)));
                }
                Ok(Some(value))
            }
            FieldKind::Several(_) => Ok(None),
        }
    }
}

fn titled_choices(values: &[(String, String)]) -> Vec<AnswerChoice> {
    values.iter().map(|(_, shown)| AnswerChoice { label: shown.clone(), description: None }).collect()
}

/// The kinds of fields that the revisions have: older ones name the titles of choices apart from the values.
fn field_kind(schema: &Value) -> FieldKind {
    let text_of = |value: &Value| value.as_str().map(str::to_owned);
    let shown = |value: &str, title: Option<String>| {
        (value.to_owned(), text::display_line(&title.unwrap_or(value.to_owned()), 200))
    };
    let plain = |schema: &Value| -> Option<Vec<(String, String)>> {
        let titles = schema["enumNames"].as_array();
        let values = schema["enum"].as_array()?.iter().filter_map(text_of).enumerate();
        Some(
            values
                .map(|(at, value)| shown(&value, titles.and_then(|titles| text_of(titles.get(at)?))))
                .collect(),
        )
    };
    let titled = |list: &Value| -> Option<Vec<(String, String)>> {
        let values = list.as_array()?.iter();
        Some(values.filter_map(|one| Some(shown(one["const"].as_str()?, text_of(&one["title"])))).collect())
    };
    match schema["type"].as_str() {
        Some("boolean") => FieldKind::YesNo,
        Some(number @ ("integer" | "number")) => FieldKind::Number {
            whole: number == "integer",
            from: schema["minimum"].as_f64(),
            to: schema["maximum"].as_f64(),
        },
        Some("array") => {
            let items = &schema["items"];
            let values = plain(items).or_else(|| titled(&items["anyOf"])).or_else(|| titled(&items["oneOf"]));
            FieldKind::Several(values.unwrap_or_default())
        }
        _ => plain(schema).or_else(|| titled(&schema["oneOf"])).map_or(FieldKind::Text, FieldKind::One),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use haft::future::BoxFuture;
    use haft::ports::{ApprovalAnswer, ApprovalRequest};

    use super::*;

    /// Answers from a list, and keeps what was asked.
    struct User {
        answers: Mutex<VecDeque<Option<Vec<String>>>>,
        asked: Mutex<Vec<UserQuestion>>,
    }

    impl User {
        fn new(answers: &[&[&str]]) -> User {
            let texts = |answer: &&[&str]| Some(answer.iter().map(|text| (*text).to_owned()).collect());
            User { answers: Mutex::new(answers.iter().map(texts).collect()), asked: Mutex::default() }
        }
    }

    impl Asker for User {
        fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
            Box::pin(async { ApprovalAnswer::No })
        }

        fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
            self.asked.lock().unwrap().push(question.clone());
            let answer = self.answers.lock().unwrap().pop_front().flatten();
            Box::pin(async { answer })
        }
    }

    #[tokio::test]
    async fn every_kind_of_field_is_asked_for_and_read() {
        let schema = json!({"type": "object", "required": ["name", "age"], "properties": {
            "age": {"type": "integer", "minimum": 1, "maximum": 150},
            "hue": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
            "many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A!"}, {"const": "b", "title": "B!"}]}},
            "name": {"type": "string", "title": "Your name"},
            "note": {"type": "string"},
            "ok": {"type": "boolean"},
            "pet": {"type": "string", "enum": ["c", "d"], "enumNames": ["Cat", "Dog"]},
            "zone": {"type": "string", "default": "UTC"},
        }});
        // What isn't named comes last, by name; what there isn't is no matter.
        let order = ["name", "age", "x", "name", "zone"].map(str::to_owned);
        let user = User::new(&[
            &["Ada"],
            &["old"],
            &["200"],
            &["42"],
            &[""],
            &["Red"],
            &["A!", "b"],
            &[""],
            &["Yes"],
            &[SKIP],
        ]);
        let answer = ask_form(&user, "s", "who?", &schema, &order).await.unwrap();
        assert_eq!(
            answer,
            json!({"action": "accept", "content": {"age": 42, "hue": "r", "many": ["a", "b"], "name": "Ada", "ok": true, "zone": "UTC"}})
        );
        let asked = user.asked.lock().unwrap();
        assert!(asked.iter().all(|question| question.text.starts_with("The server `s` asks: who?\n")));
        assert!(asked[2].text.ends_with("`old` is not a whole number."));
        assert!(asked[3].text.ends_with("between 1 and 150."));
        assert!(asked[6].several);
    }

    #[tokio::test]
    async fn no_is_an_answer_and_nonsense_ends_it() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}});
        assert_eq!(
            ask_form(&User::new(&[]), "s", "?", &schema, &[]).await.unwrap(),
            json!({"action": "decline"})
        );
        let never = User::new(&[&["x"], &["NaN"], &[""], &["1"]]);
        assert_eq!(ask_form(&never, "s", "?", &schema, &[]).await.unwrap(), json!({"action": "cancel"}));
        let bare = json!({"type": "object", "properties": {}});
        assert_eq!(
            ask_form(&User::new(&[&["Yes"]]), "s", "?", &bare, &[]).await.unwrap()["action"],
            "accept"
        );
        assert_eq!(
            ask_form(&User::new(&[&["No"]]), "s", "?", &bare, &[]).await.unwrap()["action"],
            "decline"
        );
    }

    #[tokio::test]
    async fn a_page_is_shown_and_never_opened() {
        let user = User::new(&[&["I have opened it"], &["No"]]);
        let url = json!("https://x.example/login?a=1");
        assert_eq!(ask_to_open(&user, "s", "sign in", &url).await.unwrap(), json!({"action": "accept"}));
        assert_eq!(ask_to_open(&user, "s", "sign in", &url).await.unwrap(), json!({"action": "decline"}));
        assert_eq!(ask_to_open(&user, "s", "sign in", &url).await.unwrap(), json!({"action": "cancel"}));
        assert!(user.asked.lock().unwrap()[0].text.contains("It leads to `x.example`"));
        for bad in ["file:///etc/passwd", "javascript:alert(1)", "https://a:b@x.example", "x"] {
            assert!(ask_to_open(&user, "s", "", &json!(bad)).await.is_err(), "{bad}");
        }
    }

    /// Shows forms, and fills them from a list.
    struct Screen(Mutex<(VecDeque<FormAnswer>, Vec<UserForm>)>);

    impl Asker for Screen {
        fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
            Box::pin(async { ApprovalAnswer::No })
        }

        fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
            panic!("it can show forms")
        }

        fn form<'a>(&'a self, form: &'a UserForm) -> BoxFuture<'a, FormAnswer> {
            let mut kept = self.0.lock().unwrap();
            kept.1.push(form.clone());
            let filled = kept.0.pop_front().unwrap();
            Box::pin(async { filled })
        }
    }

    #[tokio::test]
    async fn who_can_show_a_form_is_asked_once_for_all_of_it() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "title": "n\u{202e}"}, "age": {"type": "integer", "minimum": 1}}});
        let values = |value: Value| FormAnswer::Values(value.as_object().unwrap().clone());
        let fill = async |filled: &[FormAnswer]| {
            let screen = Screen(Mutex::new((filled.iter().cloned().collect(), Vec::new())));
            let answer = ask_form(&screen, "s", "who?", &schema, &["name".to_owned()]).await.unwrap();
            (answer, screen.0.into_inner().unwrap().1)
        };
        let (answer, forms) = fill(&[values(json!({"name": "Ada", "age": 36, "other": 1}))]).await;
        assert_eq!(answer, json!({"action": "accept", "content": {"name": "Ada", "age": 36}}));
        assert_eq!(forms[0].text, "The server `s` asks: who?");
        assert_eq!(forms[0].order, ["name", "age"]);
        assert_eq!(forms[0].schema["properties"]["name"]["title"], "n\\u{202e}");
        let (answer, forms) =
            fill(&[values(json!({"age": 0})), values(json!({"name": "Ada", "age": null}))]).await;
        assert_eq!(answer, json!({"action": "accept", "content": {"name": "Ada"}}));
        assert!(forms[1].text.starts_with("The server `s` asks: who?\n"), "it is said what was wrong");
        assert_eq!(fill(&[FormAnswer::Declined]).await.0, json!({"action": "decline"}));
        assert_eq!(fill(&[FormAnswer::Dismissed]).await.0, json!({"action": "cancel"}));
    }
}
