//! A tool without its types: what the registry holds and the engine runs.
//!
//! Typed code becomes JSON code here and nowhere else. An [`ToolInvocation`] is one attempt of one call: the
//! tool and its decoded input in one box, from which everything that needs the typed input is asked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{ListedClass, Tool, ToolSpec};
use crate::content::{IntoOutput, ToolOutput};
use crate::context::Context;
use crate::decision::DecisionReason;
use crate::effects::Effects;
use crate::error::ToolError;
use crate::future::BoxFuture;
use crate::isolate::IsolatedTool;
use crate::results::ResultLimit;
use crate::schema::{InputSchema, InputViolation, SchemaError, decode_input};
use crate::view::{CallStage, CallView};

/// A tool of any type: immutable and cheap to clone.
#[derive(Clone)]
pub struct AnyTool(Arc<ToolInner>);

struct ToolInner {
    spec: ToolSpec,
    description: String,
    schema: InputSchema,
    output_schema: Option<Value>,
    body: Box<dyn ToolBody>,
}

/// The behaviour of a tool over JSON.
pub(super) trait ToolBody: Send + Sync {
    /// Decodes the input for one attempt.
    fn invoke(&self, input: &Value) -> Result<Box<dyn ToolInvocation>, InputViolation>;
    fn unavailable_reason(&self) -> Option<String>;
    fn view(&self, stage: &CallStage<'_>) -> Option<CallView>;
}

/// One attempt of one call, input decoded.
pub(crate) trait ToolInvocation: Send + Sync {
    fn effects(&self) -> Effects;
    fn check<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<(), ToolError>>;
    fn permission<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Option<DecisionReason>>;
    fn describe(&self) -> Option<String>;
    fn preview<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Option<CallView>> {
        Box::pin(async { None })
    }
    fn call(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

impl AnyTool {
    /// Wraps a typed tool.
    ///
    /// # Errors
    /// The input isn't an object, its schema is too large, or the tool has no description.
    pub fn typed<T: Tool>(tool: T) -> Result<AnyTool, InvalidTool> {
        let spec = tool.spec();
        let schema =
            InputSchema::derive::<T::Input>().map_err(|error| InvalidTool::schema(&spec.name, error))?;
        AnyTool::from_parts(spec, schema, T::Output::output_schema(), Box::new(TypedBody(Arc::new(tool))))
    }

    /// Wraps a typed tool whose calls run in a child process.
    pub(crate) fn isolated<T: Tool>(tool: T, process: IsolatedTool) -> Result<AnyTool, InvalidTool> {
        let mut spec = tool.spec().in_child();
        // Whatever blocks does so in the child.
        spec.blocking = false;
        let schema =
            InputSchema::derive::<T::Input>().map_err(|error| InvalidTool::schema(&spec.name, error))?;
        let body = IsolatedBody { process: Arc::new(process), tool: TypedBody(Arc::new(tool)) };
        AnyTool::from_parts(spec, schema, T::Output::output_schema(), Box::new(body))
    }

    pub(super) fn from_parts(
        spec: ToolSpec,
        schema: InputSchema,
        output_schema: Option<Value>,
        body: Box<dyn ToolBody>,
    ) -> Result<AnyTool, InvalidTool> {
        let described = spec.description.clone().or_else(|| schema.description().map(str::to_owned));
        let description = described.unwrap_or_default().trim().to_owned();
        if description.is_empty() {
            return Err(InvalidTool {
                name: spec.name.to_string(),
                reason: "has no description; write a doc comment on its input, or give `description`".into(),
            });
        }
        check_tool_name(&spec.name)?;
        spec.aliases.iter().try_for_each(|alias| check_tool_name(alias))?;
        Ok(AnyTool(Arc::new(ToolInner { spec, description, schema, output_schema, body })))
    }

    /// The same tool to everybody who looks at it, name, schema, effects, opinion and limits, whose calls are
    /// answered by `answer` and never run: for what replays a recording through an engine. Its sense check
    /// isn't asked, as that is about files as they are now.
    #[must_use]
    pub fn answered_by(
        &self,
        answer: impl Fn(&Context) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> AnyTool {
        let ToolInner { spec, description, schema, output_schema, .. } = &*self.0;
        // Failures that were recorded say nothing of the tool as it is now, and what doesn't run needs
        // nobody.
        let spec = ToolSpec { breaker: None, needs: Vec::new(), needs_user: false, ..spec.clone() };
        AnyTool(Arc::new(ToolInner {
            spec,
            description: description.clone(),
            schema: schema.clone(),
            output_schema: output_schema.clone(),
            body: Box::new(AnsweredBody { tool: self.clone(), answer: Arc::new(answer) }),
        }))
    }

    /// Whether this is the same tool, and not only an equal one.
    pub fn is(&self, other: &AnyTool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The name by which it is called.
    pub fn name(&self) -> &str {
        &self.0.spec.name
    }

    /// What the model is told.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// The JSON Schema of its input.
    pub fn input_schema(&self) -> &Value {
        self.0.schema.as_value()
    }

    /// The JSON Schema of its output, where known.
    pub fn output_schema(&self) -> Option<&Value> {
        self.0.output_schema.as_ref()
    }

    /// What is true of it whatever the input.
    pub fn spec(&self) -> &ToolSpec {
        &self.0.spec
    }

    /// Its other names.
    pub fn aliases(&self) -> &[String] {
        &self.0.spec.aliases
    }

    /// The group under which it is listed.
    pub fn group(&self) -> &str {
        &self.0.spec.group
    }

    /// How much of a result the model sees at once.
    pub fn result_limit(&self) -> ResultLimit {
        self.0.spec.result_limit
    }

    /// How long a call may run, where a limit is set for all of them.
    pub fn time_limit(&self) -> Option<Duration> {
        self.0.spec.timeout.limit()
    }

    /// How many of its calls may run at once, where it has a limit of its own.
    pub fn calls_at_once(&self) -> Option<usize> {
        self.0.spec.concurrency
    }

    /// The class under which it is listed; see [`ToolSpec::listed_class`].
    pub fn listed_class(&self) -> ListedClass {
        self.0.spec.listed_class
    }

    /// Why it can't be offered now; a panic is a reason.
    pub fn unavailable_reason(&self) -> Option<String> {
        crate::future::catch_panic(|| self.0.body.unavailable_reason())
            .unwrap_or_else(|_| Some("it is not available now".to_owned()))
    }

    pub(crate) fn schema(&self) -> &InputSchema {
        &self.0.schema
    }

    pub(crate) fn invoke(&self, input: &Value) -> Result<Box<dyn ToolInvocation>, InputViolation> {
        self.0.body.invoke(input)
    }

    /// What a person sees: what came with the result, else the tool's view, else the default one.
    pub fn view(&self, stage: &CallStage<'_>) -> CallView {
        if let CallStage::Result { output, .. } = stage
            && let Some(view) = output.view()
        {
            return view.clone().harmless();
        }
        let own = crate::future::catch_panic(|| self.0.body.view(stage)).ok().flatten();
        own.unwrap_or_else(|| CallView::default_for(self.name(), stage)).harmless()
    }
}

impl fmt::Debug for AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyTool").field(&self.name()).finish()
    }
}

/// Names that every provider takes: letters, digits, `_` and `-`, at most 64 of them.
fn check_tool_name(name: &str) -> Result<(), InvalidTool> {
    let fits = !name.is_empty() && name.len() <= crate::limits::NAME_CHARS_MAX;
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if fits && plain && begins {
        return Ok(());
    }
    let reason =
        "is not a legal name; up to 64 letters, digits, `_` and `-` are, beginning with a letter or `_`";
    Err(InvalidTool { name: name.to_owned(), reason: reason.into() })
}

/// A tool that can't be registered, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTool {
    /// The tool's name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl InvalidTool {
    pub(super) fn schema(name: &str, error: SchemaError) -> InvalidTool {
        InvalidTool { name: name.to_owned(), reason: error.to_string() }
    }
}

impl fmt::Display for InvalidTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tool `{}` {}", self.name, self.reason)
    }
}

impl std::error::Error for InvalidTool {}

/// Anything that `Registry::with` takes: a [`Tool`], an [`AnyTool`], a closure's builder, or a list of tools.
///
/// The parameter only keeps the implementations apart; it is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something that a registry takes",
    note = "it takes a type that implements `Tool`, an `AnyTool`, the builder that `tool(…)` or `dynamic_tool(…)` gives, \
            or a list of `AnyTool`s; make several closures one list with `.build()?`"
)]
pub trait IntoTools<Kind> {
    /// The tools.
    ///
    /// # Errors
    /// One that can't be registered.
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool>;
}

/// Marks a typed tool for [`IntoTools`].
pub struct TypedMarker;

impl<T: Tool> IntoTools<TypedMarker> for T {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(vec![AnyTool::typed(self)?])
    }
}

impl IntoTools<()> for AnyTool {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(vec![self])
    }
}

impl<const N: usize> IntoTools<()> for [AnyTool; N] {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(self.into())
    }
}

impl IntoTools<()> for Vec<AnyTool> {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(self)
    }
}

impl IntoTools<()> for Result<AnyTool, InvalidTool> {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(vec![self?])
    }
}

struct TypedBody<T>(Arc<T>);

impl<T: Tool> ToolBody for TypedBody<T> {
    fn invoke(&self, input: &Value) -> Result<Box<dyn ToolInvocation>, InputViolation> {
        Ok(Box::new(TypedCall { tool: self.0.clone(), input: decode_input::<T::Input>(input)? }))
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.0.unavailable_reason()
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        self.0.view(stage)
    }
}

struct TypedCall<T: Tool> {
    tool: Arc<T>,
    input: T::Input,
}

impl<T: Tool> ToolInvocation for TypedCall<T> {
    fn effects(&self) -> Effects {
        self.tool.effects(&self.input)
    }

    fn check<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(self.tool.check(&self.input, cx))
    }

    fn permission<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Option<DecisionReason>> {
        Box::pin(self.tool.permission(&self.input, cx))
    }

    fn describe(&self) -> Option<String> {
        self.tool.describe(&self.input)
    }

    fn preview<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Option<CallView>> {
        Box::pin(self.tool.preview(&self.input, cx))
    }

    fn call(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.tool.call(self.input, &cx).await?.into_output() })
    }
}

/// A tool that is asked here and called elsewhere.
struct IsolatedBody<T> {
    process: Arc<IsolatedTool>,
    tool: TypedBody<T>,
}

impl<T: Tool> ToolBody for IsolatedBody<T> {
    fn invoke(&self, input: &Value) -> Result<Box<dyn ToolInvocation>, InputViolation> {
        let here = self.tool.invoke(input)?;
        Ok(Box::new(IsolatedCall { process: self.process.clone(), input: input.clone(), here }))
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.tool.unavailable_reason()
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        self.tool.view(stage)
    }
}

struct IsolatedCall {
    process: Arc<IsolatedTool>,
    input: Value,
    here: Box<dyn ToolInvocation>,
}

impl ToolInvocation for IsolatedCall {
    fn effects(&self) -> Effects {
        self.here.effects()
    }

    fn check<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<(), ToolError>> {
        self.here.check(cx)
    }

    fn permission<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Option<DecisionReason>> {
        self.here.permission(cx)
    }

    fn describe(&self) -> Option<String> {
        self.here.describe()
    }

    fn preview<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Option<CallView>> {
        self.here.preview(cx)
    }

    fn call(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let effects = self.here.effects();
            self.process.call(self.input, effects, &cx).await
        })
    }
}

type AnswerFn = Arc<dyn Fn(&Context) -> Result<ToolOutput, ToolError> + Send + Sync>;

/// A tool that is asked everything and never run.
struct AnsweredBody {
    tool: AnyTool,
    answer: AnswerFn,
}

impl ToolBody for AnsweredBody {
    fn invoke(&self, input: &Value) -> Result<Box<dyn ToolInvocation>, InputViolation> {
        Ok(Box::new(AnsweredCall { here: self.tool.invoke(input)?, answer: self.answer.clone() }))
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.tool.unavailable_reason()
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        self.tool.0.body.view(stage)
    }
}

struct AnsweredCall {
    here: Box<dyn ToolInvocation>,
    answer: AnswerFn,
}

impl ToolInvocation for AnsweredCall {
    fn effects(&self) -> Effects {
        self.here.effects()
    }

    fn check<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn permission<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Option<DecisionReason>> {
        self.here.permission(cx)
    }

    fn describe(&self) -> Option<String> {
        self.here.describe()
    }

    fn call(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move { (self.answer)(&cx) })
    }
}
