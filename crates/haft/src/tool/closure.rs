//! Tools from closures.
//!
//! A closure gets its input and an owned [`Context`]. [`tool`] takes the schema from the input's type,
//! [`dynamic_tool`] uses a schema given at run time exactly as it is.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use haft_scheduler::Interrupt;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::erased::{AnyTool, IntoTools, InvalidTool, ToolBody, ToolInvocation};
use super::{BreakerOptions, CallTimeout, GuardDenied, RetryPolicy, SiblingPolicy, ToolExposure, ToolSpec};
use crate::content::{IntoOutput, ToolOutput};
use crate::context::Context;
use crate::decision::DecisionReason;
use crate::effects::Effects;
use crate::error::ToolError;
use crate::future::{BoxFuture, ReadyFuture};
use crate::ports::PortName;
use crate::results::ResultLimit;
use crate::schema::{InputSchema, InputViolation, decode_input};
use crate::view::{CallStage, CallView};

/// A tool from a closure over a typed input.
///
/// ```
/// use haft::{Effects, NoInput, tool};
///
/// let answer = tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) })
///     .effects(|_| Effects::none());
/// # haft::Registry::new().with(answer).unwrap();
/// ```
pub fn tool<I, O, F, Fut>(name: impl Into<String>, description: impl Into<String>, call: F) -> FnTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: IntoOutput,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    FnTool { facts: ClosureFacts::new(name, description), call, input: PhantomData }
}

/// A tool from a closure over JSON, with a schema known at run time.
///
/// ```
/// use haft::dynamic_tool;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
/// let lookup = dynamic_tool("lookup", "Looks a customer up.", schema, |args, _cx| async move {
///     Ok(format!("customer {}", args["id"]))
/// })
/// .reaches("crm.example.com");
/// # haft::Registry::new().with(lookup).unwrap();
/// ```
pub fn dynamic_tool<O, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Value,
    call: F,
) -> DynamicTool<F>
where
    O: IntoOutput,
    F: Fn(Value, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    DynamicTool { facts: ClosureFacts::new(name, description), schema, output_schema: None, call }
}

/// A closure over a typed input, on its way to a tool. See [`tool`].
#[must_use]
pub struct FnTool<I, F> {
    facts: ClosureFacts<I>,
    call: F,
    input: PhantomData<fn(I)>,
}

/// A closure over JSON, on its way to a tool. See [`dynamic_tool`].
#[must_use]
pub struct DynamicTool<F> {
    facts: ClosureFacts<Value>,
    schema: Value,
    output_schema: Option<Value>,
    call: F,
}

impl<F> DynamicTool<F> {
    /// The schema of what it gives back.
    pub fn output_schema(mut self, schema: Value) -> DynamicTool<F> {
        self.output_schema = Some(schema);
        self
    }
}

type InputFn<I, T> = Arc<dyn Fn(&I) -> T + Send + Sync>;
type CheckFn<I> = Arc<dyn Fn(&I, &Context) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync>;
type ViewFn = Arc<dyn Fn(&CallStage<'_>) -> Option<CallView> + Send + Sync>;

/// Everything that a builder collects besides the closure itself.
struct ClosureFacts<I> {
    spec: ToolSpec,
    effects: Option<InputFn<I, Effects>>,
    check: Option<CheckFn<I>>,
    opinion: Option<InputFn<I, Option<DecisionReason>>>,
    describe: Option<InputFn<I, String>>,
    unavailable_reason: Option<Arc<dyn Fn() -> Option<String> + Send + Sync>>,
    view: Option<ViewFn>,
}

impl<I> Clone for ClosureFacts<I> {
    fn clone(&self) -> ClosureFacts<I> {
        ClosureFacts {
            spec: self.spec.clone(),
            effects: self.effects.clone(),
            check: self.check.clone(),
            opinion: self.opinion.clone(),
            describe: self.describe.clone(),
            unavailable_reason: self.unavailable_reason.clone(),
            view: self.view.clone(),
        }
    }
}

impl<I> ClosureFacts<I> {
    fn new(name: impl Into<String>, description: impl Into<String>) -> ClosureFacts<I> {
        ClosureFacts {
            spec: ToolSpec::new(name.into()).description(description),
            effects: None,
            check: None,
            opinion: None,
            describe: None,
            unavailable_reason: None,
            view: None,
        }
    }
}

/// The builder methods that both kinds of closure share.
macro_rules! builder {
    ($input:ty, [$($generics:tt)*], $builder:ty) => {
        impl<$($generics)*> $builder {
            /// What a call will touch. Default: unknown.
            pub fn effects(mut self, effects: impl Fn(&$input) -> Effects + Send + Sync + 'static) -> Self {
                self.facts.effects = Some(Arc::new(effects));
                self
            }

            /// Declares that every call looks something up at this host, beside what else is declared.
            pub fn reaches(mut self, host: impl Into<String>) -> Self {
                let host = host.into();
                let before = self.facts.effects.take();
                self.facts.effects = Some(Arc::new(move |input| {
                    let reach = Effects::observes(host.clone());
                    before.as_ref().map_or_else(|| reach.clone(), |before| before(input).and(reach.clone()))
                }));
                self
            }

            /// Whether the input makes sense. Default: whatever has the right shape does.
            pub fn check<Fut>(mut self, check: impl Fn(&$input, &Context) -> Fut + Send + Sync + 'static) -> Self
            where
                Fut: Future<Output = Result<(), ToolError>> + Send + 'static,
            {
                self.facts.check = Some(Arc::new(move |input, cx| Box::pin(check(input, cx))));
                self
            }

            /// The tool's own opinion on a call. Default: none.
            pub fn permission(
                mut self,
                opinion: impl Fn(&$input) -> Option<DecisionReason> + Send + Sync + 'static,
            ) -> Self {
                self.facts.opinion = Some(Arc::new(opinion));
                self
            }

            /// What one call will do, in a sentence for a person.
            pub fn describe(mut self, describe: impl Fn(&$input) -> String + Send + Sync + 'static) -> Self {
                self.facts.describe = Some(Arc::new(describe));
                self
            }

            /// Why the tool can't be offered now, as a fragment. Default: it can.
            pub fn unavailable_reason(
                mut self,
                reason: impl Fn() -> Option<String> + Send + Sync + 'static,
            ) -> Self {
                self.facts.unavailable_reason = Some(Arc::new(reason));
                self
            }

            /// What a person sees at a stage of the call.
            pub fn view(mut self, view: impl Fn(&CallStage<'_>) -> Option<CallView> + Send + Sync + 'static) -> Self {
                self.facts.view = Some(Arc::new(view));
                self
            }

            /// Adds a guard over the JSON input at the end of the chain.
            pub fn guard<G, Fut>(self, guard: G) -> Self
            where
                G: Fn(Value, Context) -> Fut + Send + Sync + 'static,
                Fut: Future<Output = Result<Value, GuardDenied>> + Send + 'static,
            {
                self.spec(|spec| spec.guard(guard))
            }

            /// See [`ToolSpec::alias`].
            pub fn alias(self, alias: impl Into<String>) -> Self {
                self.spec(|spec| spec.alias(alias))
            }

            /// See [`ToolSpec::result_limit`].
            pub fn result_limit(self, limit: impl Into<ResultLimit>) -> Self {
                self.spec(|spec| spec.result_limit(limit))
            }

            /// See [`ToolSpec::exposure`].
            pub fn exposure(self, exposure: ToolExposure) -> Self {
                self.spec(|spec| spec.exposure(exposure))
            }

            /// See [`ToolSpec::search_hint`].
            pub fn search_hint(self, hint: impl Into<String>) -> Self {
                self.spec(|spec| spec.search_hint(hint))
            }

            /// See [`ToolSpec::concurrency`].
            pub fn concurrency(self, calls: usize) -> Self {
                self.spec(|spec| spec.concurrency(calls))
            }

            /// See [`ToolSpec::timeout`].
            pub fn timeout(self, timeout: impl Into<CallTimeout>) -> Self {
                self.spec(|spec| spec.timeout(timeout))
            }

            /// Shorthand for a time limit in milliseconds.
            pub fn timeout_ms(self, ms: u64) -> Self {
                self.timeout(Duration::from_millis(ms))
            }

            /// See [`ToolSpec::retry`].
            pub fn retry(self, retry: RetryPolicy) -> Self {
                self.spec(|spec| spec.retry(retry))
            }

            /// See [`ToolSpec::breaker`].
            pub fn breaker(self, breaker: BreakerOptions) -> Self {
                self.spec(|spec| spec.breaker(breaker))
            }

            /// See [`ToolSpec::interrupt`].
            pub fn interrupt(self, interrupt: Interrupt) -> Self {
                self.spec(|spec| spec.interrupt(interrupt))
            }

            /// See [`ToolSpec::on_error`].
            pub fn on_error(self, policy: SiblingPolicy) -> Self {
                self.spec(|spec| spec.on_error(policy))
            }

            /// See [`ToolSpec::needs_user`].
            pub fn needs_user(self) -> Self {
                self.spec(ToolSpec::needs_user)
            }

            /// See [`ToolSpec::needs`].
            pub fn needs(self, port: PortName) -> Self {
                self.spec(|spec| spec.needs(port))
            }

            /// See [`ToolSpec::blocking`].
            pub fn blocking(self) -> Self {
                self.spec(ToolSpec::blocking)
            }

            /// See [`ToolSpec::group`].
            pub fn group(self, group: impl Into<std::borrow::Cow<'static, str>>) -> Self {
                self.spec(|spec| spec.group(group))
            }

            /// Changes the fixed facts.
            pub fn spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
                self.facts.spec = change(self.facts.spec);
                self
            }
        }
    };
}

builder!(I, [I: 'static, F], FnTool<I, F>);
builder!(Value, [F], DynamicTool<F>);

impl<I, F> FnTool<I, F> {
    /// The tool itself, for a function that returns it or a list of several.
    ///
    /// # Errors
    /// It can't be registered.
    pub fn build<O, Fut>(self) -> Result<AnyTool, InvalidTool>
    where
        I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
        O: IntoOutput,
        F: Fn(I, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let FnTool { facts, call, .. } = self;
        let spec = facts.spec.clone();
        let schema = InputSchema::derive::<I>().map_err(|error| InvalidTool::schema(&spec.name, error))?;
        let body = FnBody(Arc::new(FnParts { facts, call, decode: decode_input::<I> }));
        AnyTool::from_parts(spec, schema, O::output_schema(), Box::new(body))
    }
}

impl<F> DynamicTool<F> {
    /// The tool itself, for a function that returns it or a list of several.
    ///
    /// # Errors
    /// It can't be registered.
    pub fn build<O, Fut>(self) -> Result<AnyTool, InvalidTool>
    where
        O: IntoOutput,
        F: Fn(Value, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let DynamicTool { facts, schema, output_schema, call } = self;
        let spec = facts.spec.clone();
        let schema = InputSchema::given(schema).map_err(|error| InvalidTool::schema(&spec.name, error))?;
        let as_it_is = |input: &Value| Ok(input.clone());
        let body = FnBody(Arc::new(FnParts { facts, call, decode: as_it_is }));
        AnyTool::from_parts(spec, schema, output_schema.or_else(O::output_schema), Box::new(body))
    }
}

/// Marks a closure for [`IntoTools`].
pub struct ClosureMarker<O, Fut>(PhantomData<fn() -> (O, Fut)>);

impl<I, O, F, Fut> IntoTools<ClosureMarker<O, Fut>> for FnTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: IntoOutput,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(vec![self.build()?])
    }
}

impl<O, F, Fut> IntoTools<ClosureMarker<O, Fut>> for DynamicTool<F>
where
    O: IntoOutput,
    F: Fn(Value, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(vec![self.build()?])
    }
}

struct FnBody<I, F>(Arc<FnParts<I, F>>);

/// What every call of a closure's tool shares.
struct FnParts<I, F> {
    facts: ClosureFacts<I>,
    call: F,
    decode: fn(&Value) -> Result<I, InputViolation>,
}

impl<I, O, F, Fut> ToolBody for FnBody<I, F>
where
    I: Send + Sync + 'static,
    O: IntoOutput,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn invoke(&self, input: &Value) -> Result<Box<dyn ToolInvocation>, InputViolation> {
        let input = (self.0.decode)(input)?;
        Ok(Box::new(FnCall { parts: self.0.clone(), input }))
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.0.facts.unavailable_reason.as_ref().and_then(|reason| reason())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        self.0.facts.view.as_ref().and_then(|view| view(stage))
    }
}

struct FnCall<I, F> {
    parts: Arc<FnParts<I, F>>,
    input: I,
}

impl<I, O, F, Fut> ToolInvocation for FnCall<I, F>
where
    I: Send + Sync + 'static,
    O: IntoOutput,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn effects(&self) -> Effects {
        self.parts.facts.effects.as_ref().map_or_else(Effects::unknown, |effects| effects(&self.input))
    }

    fn check<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<(), ToolError>> {
        match &self.parts.facts.check {
            Some(check) => check(&self.input, cx),
            None => Box::pin(super::PassedCheck(ReadyFuture::new())),
        }
    }

    fn permission<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Option<DecisionReason>> {
        match &self.parts.facts.opinion {
            Some(opinion) => Box::pin(std::future::ready(opinion(&self.input))),
            None => Box::pin(ReadyFuture::new()),
        }
    }

    fn describe(&self) -> Option<String> {
        self.parts.facts.describe.as_ref().map(|describe| describe(&self.input))
    }

    fn call(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move { (self.parts.call)(self.input, cx).await?.into_output() })
    }
}
