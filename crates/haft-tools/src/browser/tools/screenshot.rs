//! `BrowserScreenshot`: what the page looks like, as an image.

use std::time::Duration;

use base64::Engine as _;
use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{check_named, render_stage};
use crate::browser::wire::WireError;
use crate::browser::{Browser, BrowserTurn, RESOURCE, TargetTab, WINDOW, browser_tool_spec};

/// The longest side of an image, in pixels: models make larger ones smaller by themselves.
const SIDE_MAX: f64 = 1568.0;
/// How much of a long page is in one image, in pixels of the page.
const PAGE_HEIGHT_MAX: f64 = 8_000.0;
/// Images of more bytes are taken again as JPEG, which loses a little.
const IMAGE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Takes a picture of the open page: of what a window of 1280 by 800 shows, of all of it, or of one element.
///
/// Use it where the look matters: layout, colours, pictures, charts. BrowserSnapshot says more about text and
/// what can be clicked, for less.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserScreenshotInput {
    /// Only this element, by its ref in BrowserSnapshot, for example `e12`.
    #[serde(default, rename = "ref")]
    pub element: Option<String>,
    /// All of the page, from the top to the bottom, made smaller.
    #[serde(default)]
    pub full_page: Option<bool>,
}

/// The tool `BrowserScreenshot`.
pub struct BrowserScreenshot(pub(in crate::browser) Browser);

/// A part of a page, in pixels of the page.
struct ClipRect {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Tool for BrowserScreenshot {
    type Input = BrowserScreenshotInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserScreenshot")
            .alias("browser_take_screenshot")
            .listed_class(ConcurrencyClass::ReadOnly)
            .timeout(Duration::from_secs(120))
            .search_hint("screenshot picture image of the page in the browser")
    }

    fn effects(&self, _: &BrowserScreenshotInput) -> Effects {
        Effects::reads_state(RESOURCE)
    }

    async fn check(&self, input: &BrowserScreenshotInput, _: &Context) -> Result<(), ToolError> {
        match &input.element {
            Some(_) if input.full_page == Some(true) => {
                Err(ToolError::invalid_input("`ref` is one element and `full_page` all of it; leave one out"))
            }
            Some(element) => check_named(Some(element), None),
            None => Ok(()),
        }
    }

    async fn call(&self, input: BrowserScreenshotInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.open(cx).await?;
        let (clip, beyond) = match &input.element {
            Some(name) => (element_clip(&turn, &on, name).await?, true),
            None => {
                let metrics = turn.page(&on.session, "Page.getLayoutMetrics", json!({})).await?;
                let number = |part: &str, field: &str| metrics[part][field].as_f64().unwrap_or_default();
                if input.full_page == Some(true) {
                    let (width, height) =
                        (number("cssContentSize", "width"), number("cssContentSize", "height"));
                    let clip = ClipRect { x: 0.0, y: 0.0, width, height: height.min(PAGE_HEIGHT_MAX) };
                    (clip, true)
                } else {
                    let (x, y) = (number("cssVisualViewport", "pageX"), number("cssVisualViewport", "pageY"));
                    (ClipRect { x, y, width: f64::from(WINDOW.0), height: f64::from(WINDOW.1) }, false)
                }
            }
        };
        let scale = (SIDE_MAX / clip.width.max(clip.height)).min(1.0);
        let take = |format: &'static str| {
            let mut params = json!({"format": format, "captureBeyondViewport": beyond,
                "clip": {"x": clip.x, "y": clip.y, "width": clip.width.max(1.0), "height": clip.height.max(1.0), "scale": scale}});
            if format == "jpeg" {
                params["quality"] = 80.into();
            }
            turn.page(&on.session, "Page.captureScreenshot", params)
        };
        let mut image = ("image/png", decode_image(take("png").await)?);
        if image.1.len() > IMAGE_BYTES_MAX {
            image = ("image/jpeg", decode_image(take("jpeg").await)?);
        }
        let (width, height) = ((clip.width * scale).round(), (clip.height * scale).round());
        let words = turn.told(&format!("{width} × {height} pixels"));
        Ok(ToolOutput::new(vec![ResultBlock::text(words), ResultBlock::image(image.0, image.1)]))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("ref").unwrap_or("page")))
    }
}

fn decode_image(answer: Result<Value, WireError>) -> Result<Vec<u8>, ToolError> {
    let answer = answer?;
    let data = answer["data"].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data);
    bytes
        .ok()
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| ToolError::new("the browser took no picture; try it again"))
}

/// Where an element is.
async fn element_clip(turn: &BrowserTurn, on: &TargetTab, name: &str) -> Result<ClipRect, ToolError> {
    let element = turn.element(name)?;
    if element.session != on.session {
        return Err(ToolError::new(format!(
            "{} is in a frame of another site; take a picture of the page instead",
            element.about
        )));
    }
    let node = json!({"backendNodeId": element.node});
    let _ = turn.page(&on.session, "DOM.scrollIntoViewIfNeeded", node.clone()).await;
    let found = match turn.page(&on.session, "DOM.getBoxModel", node).await {
        Err(WireError::Refused(_)) => {
            return Err(ToolError::new(format!(
                "{} is not visible; BrowserSnapshot shows what is there",
                element.about
            )));
        }
        found => found?,
    };
    let metrics = turn.page(&on.session, "Page.getLayoutMetrics", json!({})).await?;
    let scrolled = |field: &str| metrics["cssVisualViewport"][field].as_f64().unwrap_or_default();
    let border: Vec<f64> =
        found["model"]["border"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let [x0, y0, x1, y1, x2, y2, x3, y3] = border[..] else {
        return Err(ToolError::new(
            "the element has no place on the page, so there is no picture of it; leave `ref` out for the whole window",
        ));
    };
    let (left, top) = (x0.min(x1).min(x2).min(x3), y0.min(y1).min(y2).min(y3));
    let (right, bottom) = (x0.max(x1).max(x2).max(x3), y0.max(y1).max(y2).max(y3));
    Ok(ClipRect {
        x: left + scrolled("pageX"),
        y: top + scrolled("pageY"),
        width: right - left,
        height: (bottom - top).min(PAGE_HEIGHT_MAX),
    })
}
