//! Pictures as models take them: one of four formats, not too large.
//!
//! Every picture is decoded, so that one which is damaged is an error here and not at the provider. One that
//! fits is passed on as it is, to the byte; another is turned as its camera said, scaled and written anew. Of
//! an animation that is too large the first frame is left.

use std::io::Cursor;
use std::sync::Arc;

use haft::isolate::ChildResources;
use haft::{Context, ResultBlock, ToolError, ToolOutput};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits};
use serde::{Deserialize, Serialize};

use crate::decoding::{DecoderOutput, decode_isolated};

/// The longer side of a picture, in pixels; providers scale larger ones down themselves.
pub(crate) const EDGE_MAX: u32 = 1_568;
/// The bytes of a picture: 5 MB in base64.
pub(crate) const BYTES_MAX: usize = 3_750_000;
/// The largest picture that is decoded, in pixels.
const PIXELS_MAX: u64 = 100_000_000;
/// Memory for decoding, in bytes.
const DECODE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// The quality of JPEG, out of 100.
const QUALITY: u8 = 85;
/// How often a picture that has too many bytes is made smaller.
const TRIES: usize = 6;

/// A format that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ModelImageFormat {
    Png,
    Jpeg,
    Gif,
    WebP,
}

impl ModelImageFormat {
    /// By the first bytes. `GIF87a` could begin a text, so a picture has to look like one.
    pub(crate) fn detect(head: &[u8]) -> Option<ModelImageFormat> {
        match head {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(ModelImageFormat::Png),
            [0xff, 0xd8, 0xff, ..] => Some(ModelImageFormat::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] if head.contains(&0) => {
                Some(ModelImageFormat::Gif)
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ModelImageFormat::WebP),
            _ => None,
        }
    }

    /// By a media type.
    #[cfg(feature = "notebooks")]
    pub(crate) fn of_type(media_type: &str) -> Option<ModelImageFormat> {
        let all =
            [ModelImageFormat::Png, ModelImageFormat::Jpeg, ModelImageFormat::Gif, ModelImageFormat::WebP];
        all.into_iter().find(|format| format.media_type() == media_type)
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            ModelImageFormat::Png => "image/png",
            ModelImageFormat::Jpeg => "image/jpeg",
            ModelImageFormat::Gif => "image/gif",
            ModelImageFormat::WebP => "image/webp",
        }
    }

    fn name(self) -> &'static str {
        match self {
            ModelImageFormat::Png => "PNG",
            ModelImageFormat::Jpeg => "JPEG",
            ModelImageFormat::Gif => "GIF",
            ModelImageFormat::WebP => "WebP",
        }
    }

    fn codec(self) -> ImageFormat {
        match self {
            ModelImageFormat::Png => ImageFormat::Png,
            ModelImageFormat::Jpeg => ImageFormat::Jpeg,
            ModelImageFormat::Gif => ImageFormat::Gif,
            ModelImageFormat::WebP => ImageFormat::WebP,
        }
    }
}

/// A picture that a model can be given.
#[derive(Debug)]
pub(crate) struct ModelImage {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: Arc<[u8]>,
    /// `PNG, 640×480`.
    pub(crate) words: String,
}

impl ModelImage {
    /// A picture of pixels, red, green, blue and opacity each a byte.
    #[cfg(feature = "pdf")]
    pub(crate) fn of_pixels(width: u32, height: u32, pixels: Vec<u8>) -> Result<ModelImage, String> {
        let image = image::RgbaImage::from_raw(width, height, pixels).ok_or("its size is wrong")?;
        let image = DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(image).into_rgb8());
        encode_image(image, ModelImageFormat::Png, format!("{width}×{height}"))
    }
}

/// What is wanted of a picture.
#[derive(Serialize, Deserialize)]
pub(crate) struct ImageRequest {
    pub(crate) format: ModelImageFormat,
    /// Begins the text of errors.
    pub(crate) failure: String,
    /// The name for a line that says what the picture is.
    pub(crate) name: Option<String>,
}

/// The blocks of a picture.
pub(crate) async fn read_image(
    bytes: &[u8],
    format: ModelImageFormat,
    shown: &str,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let failure = format!("`{shown}`, a {} image, can't be shown", format.name());
    let request = ImageRequest { format, failure, name: Some(shown.to_owned()) };
    let decoded = decode_isolated(&request.failure, decode_picture, &request, bytes, cx).await?;
    Ok(decoded.into_output(shown))
}

/// Decodes a picture into one that a model can be given; the summary says what it is.
pub(crate) fn decode_picture(
    request: ImageRequest,
    resources: &ChildResources,
) -> Result<DecoderOutput, ToolError> {
    let ImageRequest { format, failure, name } = request;
    let picture = fit_image(resources.read_content()?, format);
    let picture = picture.map_err(|why| ToolError::new(format!("{failure}: {why}")))?;
    let line = name.map(|name| ResultBlock::text(format!("[`{name}`: {}]", picture.words)));
    let image = ResultBlock::image(picture.media_type, picture.bytes);
    let blocks: Vec<ResultBlock> = line.into_iter().chain([image]).collect();
    Ok(DecoderOutput::new(&blocks, picture.words))
}

/// Makes a picture fit.
///
/// # Errors
/// In words: why it can't be shown.
pub(crate) fn fit_image(bytes: Vec<u8>, format: ModelImageFormat) -> Result<ModelImage, String> {
    let damaged = |error: image::ImageError| match error {
        image::ImageError::Limits(_) => format!("it has more than {PIXELS_MAX} pixels"),
        error => format!("it is damaged ({error})"),
    };
    let mut reader = ImageReader::with_format(Cursor::new(&bytes), format.codec());
    let mut limits = Limits::default();
    limits.max_alloc = Some(DECODE_BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(format!("it has {width}×{height} pixels, more than {PIXELS_MAX}"));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    let words = format!("{}, {width}×{height}", format.name());
    let fits = width.max(height) <= EDGE_MAX && bytes.len() <= BYTES_MAX;
    if fits && orientation == Orientation::NoTransforms {
        return Ok(ModelImage { media_type: format.media_type(), bytes: bytes.into(), words });
    }
    image.apply_orientation(orientation);
    encode_image(image, format, words)
}

/// A picture written anew, as small as it has to be.
fn encode_image(
    mut image: DynamicImage,
    format: ModelImageFormat,
    mut words: String,
) -> Result<ModelImage, String> {
    let before = (image.width(), image.height());
    let mut edge = EDGE_MAX;
    // Drawings stay sharp; photographs stay small.
    let mut lossless = format != ModelImageFormat::Jpeg;
    for _ in 0..TRIES {
        if image.width().max(image.height()) > edge {
            image = image.resize(edge, edge, FilterType::Triangle);
        }
        let mut bytes = Vec::new();
        let (media_type, done) = if lossless {
            ("image/png", image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png))
        } else {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
            ("image/jpeg", image.to_rgb8().write_with_encoder(encoder))
        };
        done.map_err(|error| format!("it can't be written anew ({error})"))?;
        if bytes.len() <= BYTES_MAX {
            let now = (image.width(), image.height());
            if now != before {
                words.push_str(&format!(", shown as {}×{}", now.0, now.1));
            }
            return Ok(ModelImage { media_type, bytes: bytes.into(), words });
        }
        if lossless { lossless = false } else { edge = image.width().max(image.height()) * 3 / 4 }
    }
    Err(format!("it can't be made smaller than {BYTES_MAX} bytes"))
}

#[cfg(test)]
pub(crate) mod tests {
    use haft::ResultBlock;
    use serde_json::json;

    use super::*;
    use crate::room::Room;

    /// A picture of this size, each pixel another colour.
    pub(crate) fn sample(width: u32, height: u32, format: ModelImageFormat) -> Vec<u8> {
        let image = image::RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x * 7) as u8, (y * 5) as u8, (x ^ y) as u8])
        });
        let mut bytes = Vec::new();
        DynamicImage::ImageRgb8(image).write_to(&mut Cursor::new(&mut bytes), format.codec()).unwrap();
        bytes
    }

    #[test]
    fn a_picture_that_fits_is_passed_on_to_the_byte() {
        let room = Room::new();
        for (name, format) in [
            ("a.png", ModelImageFormat::Png),
            ("b.jpg", ModelImageFormat::Jpeg),
            ("c.gif", ModelImageFormat::Gif),
            ("d.webp", ModelImageFormat::WebP),
        ] {
            let bytes = sample(40, 30, format);
            room.put(name, &bytes);
            let result = room.call("Read", json!({"file_path": name}));
            let blocks = result.outcome().unwrap().blocks();
            let expected = [
                ResultBlock::text(format!("[`{name}`: {}, 40×30]", format.name())),
                ResultBlock::image(format.media_type(), bytes),
            ];
            assert_eq!(blocks, expected);
            assert_eq!(result.view().summary.unwrap(), format!("{}, 40×30", format.name()));
        }
    }

    #[test]
    fn a_large_picture_is_scaled_and_keeps_its_shape() {
        for format in [ModelImageFormat::Png, ModelImageFormat::Jpeg] {
            let picture = fit_image(sample(1_600, 400, format), format).unwrap();
            assert_eq!(picture.words, format!("{}, 1600×400, shown as 1568×392", format.name()));
            assert!(picture.bytes.len() <= BYTES_MAX);
            let again = image::load_from_memory(&picture.bytes).unwrap();
            assert_eq!((again.width(), again.height()), (1_568, 392));
        }
    }

    #[test]
    fn a_picture_that_is_cut_off_or_no_picture_is_an_error_with_words() {
        let room = Room::new();
        for (name, format) in [
            ("a.png", ModelImageFormat::Png),
            ("b.jpg", ModelImageFormat::Jpeg),
            ("c.gif", ModelImageFormat::Gif),
            ("d.webp", ModelImageFormat::WebP),
        ] {
            let bytes = sample(40, 30, format);
            for cut in [12, bytes.len() / 2] {
                room.put(name, &bytes[..cut.max(20).min(bytes.len() - 1)]);
                let (_, words) = room.error("Read", json!({"file_path": name}));
                assert!(words.starts_with(&format!("`{name}`, a {} image,", format.name())), "{words}");
            }
        }
        // A PNG that says that it is gigantic.
        let mut bomb = sample(1, 1, ModelImageFormat::Png);
        bomb[16..24].copy_from_slice(&[0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0]);
        let words = fit_image(bomb, ModelImageFormat::Png).unwrap_err();
        assert!(words.contains("pixels") || words.contains("damaged"), "{words}");
    }
}
