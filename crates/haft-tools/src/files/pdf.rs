//! PDF: the text of pages, and pictures of them.
//!
//! The library draws a page on a device; ours draws nothing and keeps the characters with their places. They
//! stay in the order in which the page draws them, which is the order of reading in nearly all documents,
//! also in columns. A line ends where the next character stands higher or lower, and a gap as wide as a space
//! is one.
//!
//! What a file doesn't say can't be known: characters of a font without a table to Unicode are counted as
//! unreadable, and a scanned page has no text at all. For both there are pictures.
//!
//! All of it runs in a child process ([`decoding`](crate::decoding)), which has limits of memory and time.
//! Where a page has said all that is kept of it, the way out of the library is to unwind ([`StopDrawing`]).
//! What draws a picture is the library's own; what it would have to draw is weighed before, so that one page
//! doesn't take the time of all.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

#[cfg(feature = "web")]
use haft::{ToolError, isolate::ChildResources};
use hayro::hayro_interpret::font::{Glyph, GlyphRun};
use hayro::hayro_interpret::hayro_cmap::BfString;
use hayro::hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, interpret_page,
};
use hayro::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use hayro::kurbo::{Affine, BezPath, Point, Rect};
use hayro::vello_cpu::color::palette::css::WHITE;
use hayro::{PixmapSettings, RenderCache, RenderSettings};

use crate::images::{EDGE_MAX, ModelImage};

/// How many pages of a PDF from the web are read.
#[cfg(feature = "web")]
const WEB_PAGES_MAX: usize = 200;
/// How much text of one is taken, in bytes.
#[cfg(feature = "web")]
const WEB_BYTES_MAX: usize = 1024 * 1024;

/// Characters that are kept of one page.
const PAGE_CHARS_MAX: usize = 200_000;
/// How much a page is enlarged at most, so that small print can be read.
const SCALE_MAX: f32 = 2.0;

/// What may be drawn for one picture of a page, as [`CostDevice`] counts it: tens of seconds on any machine.
const WEIGHT_MAX: f64 = 2_000_000.0;

/// A document.
pub(crate) struct PdfDocument {
    pdf: Pdf,
}

/// What leads out of the library when enough is known of a page. It is no panic, and no hook for panics is
/// called.
struct StopDrawing;

fn stop_drawing() -> ! {
    resume_unwind(Box::new(StopDrawing))
}

/// Runs something of the library; says whether it came to its end.
fn to_the_end(work: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => true,
        Err(why) if why.is::<StopDrawing>() => false,
        Err(why) => resume_unwind(why),
    }
}

/// The text of a page.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PageText {
    pub(crate) text: String,
    /// Characters of which the file doesn't say what they are.
    pub(crate) unreadable: usize,
    /// Whether pictures are drawn on it.
    pub(crate) has_pictures: bool,
}

/// Decodes the text of a document that came from the web: its first pages. `failure` begins the text of
/// errors.
#[cfg(feature = "web")]
pub(crate) fn decode_text(failure: String, resources: &ChildResources) -> Result<String, ToolError> {
    let document = PdfDocument::open(resources.read_content()?);
    let document = document.map_err(|why| ToolError::new(format!("{failure}: {why}")))?;
    let pages = document.pages();
    let mut text = String::new();
    document.texts(0..pages.min(WEB_PAGES_MAX), |at, page| {
        text.push_str(&format!("Page {} of {pages}\n\n{}\n\n", at + 1, page.text.trim()));
        text.len() < WEB_BYTES_MAX
    });
    if pages > WEB_PAGES_MAX {
        text.push_str(&format!("[{} more pages are left out]\n", pages - WEB_PAGES_MAX));
    }
    Ok(text)
}

impl PdfDocument {
    /// Opens a document.
    ///
    /// # Errors
    /// In words: why it can't be opened.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<PdfDocument, String> {
        let pdf = Pdf::new(Arc::new(bytes)).map_err(|error| match error {
            LoadPdfError::Decryption(DecryptionError::PasswordProtected) => {
                "it is encrypted, and can't be opened without its password; decrypt it first".to_owned()
            }
            LoadPdfError::Decryption(DecryptionError::UnsupportedAlgorithm) => {
                "it is encrypted in a way that is not supported; decrypt it first".to_owned()
            }
            LoadPdfError::Decryption(_) => "it is encrypted, and its encryption is damaged".to_owned(),
            LoadPdfError::Invalid => "it is damaged: its structure can't be read".to_owned(),
        })?;
        if pdf.pages().is_empty() { Err("it has no pages".to_owned()) } else { Ok(PdfDocument { pdf }) }
    }

    pub(crate) fn pages(&self) -> usize {
        self.pdf.pages().len()
    }

    /// The text of pages, counted from 0, as long as `more` wants them. What pages have in common is read
    /// once.
    pub(crate) fn texts(
        &self,
        pages: impl Iterator<Item = usize>,
        mut more: impl FnMut(usize, PageText) -> bool,
    ) {
        let cache = InterpreterCache::new();
        for at in pages {
            let Some(page) = self.pdf.pages().get(at) else { return };
            let turned = page.initial_transform(true);
            let [a, b, c, d, e, f] = turned.as_coeffs();
            let turned = Affine::new([a, b, c, d, e, f]);
            let everything = Rect::new(-1e6, -1e6, 1e6, 1e6);
            let settings = InterpreterSettings::default();
            let mut context = Context::new(turned, everything, &cache, self.pdf.xref(), settings);
            let mut reader = TextDevice::default();
            to_the_end(|| interpret_page(page, &mut context, &mut reader));
            if !more(at, reader.finish()) {
                return;
            }
        }
    }

    /// A picture of a page, counted from 0.
    ///
    /// # Errors
    /// In words: why there is none.
    pub(crate) fn picture(&self, at: usize) -> Result<ModelImage, String> {
        self.picture_of(at, WEIGHT_MAX)
    }

    fn picture_of(&self, at: usize, weight_max: f64) -> Result<ModelImage, String> {
        let page = self.pdf.pages().get(at).ok_or("there is no such page")?;
        let (width, height) = page.render_dimensions();
        let longer = width.max(height);
        if !(longer.is_finite() && width >= 1.0 && height >= 1.0) {
            return Err(format!("its size of {width}×{height} points can't be drawn"));
        }
        let scale = (EDGE_MAX as f32 / longer).min(SCALE_MAX);
        let everything = Rect::new(0.0, 0.0, f64::from(width * scale), f64::from(height * scale));
        let [a, b, c, d, e, f] = page.initial_transform(true).as_coeffs();
        let placed = Affine::scale(f64::from(scale)) * Affine::new([a, b, c, d, e, f]);
        let cache = InterpreterCache::new();
        let settings = InterpreterSettings::default();
        let mut context = Context::new(placed, everything, &cache, self.pdf.xref(), settings);
        let mut weigher = CostDevice { page: everything, weight: 0.0, weight_max };
        if !to_the_end(|| interpret_page(page, &mut context, &mut weigher)) {
            return Err("too much is drawn on it".to_owned());
        }
        let pixmap = hayro::render(
            page,
            &RenderCache::new(),
            &InterpreterSettings::default(),
            &RenderSettings::default(),
            &PixmapSettings { x_scale: scale, y_scale: scale, bg_color: WHITE },
        );
        let (width, height) = (u32::from(pixmap.width()), u32::from(pixmap.height()));
        ModelImage::of_pixels(width, height, pixmap.data_as_u8_slice().to_vec())
    }
}

/// A device that draws nothing, and counts what drawing would cost: in small shapes.
struct CostDevice {
    page: Rect,
    weight: f64,
    weight_max: f64,
}

/// Pixels that cost as much as a small shape.
const SHAPE_PIXELS: f64 = 20_000.0;
/// What a layer of its own costs, and a picture, beyond its pixels.
const LAYER_WEIGHT: f64 = 500.0;
const IMAGE_WEIGHT: f64 = 100.0;

impl CostDevice {
    fn add(&mut self, weight: f64, place: Rect) {
        let pixels = place.intersect(self.page).area().max(0.0);
        self.weight += weight + if pixels.is_finite() { pixels / SHAPE_PIXELS } else { LAYER_WEIGHT };
        if self.weight > self.weight_max {
            stop_drawing();
        }
    }
}

impl<'a> Device<'a> for CostDevice {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {
        self.add(run.glyphs().len() as f64, Rect::ZERO);
    }
    fn draw_path(&mut self, path: &BezPath, props: DrawProps<'a>, _: &DrawMode) {
        let place = props.transform.transform_rect_bbox(path.control_box());
        self.add(1.0 + path.elements().len() as f64 / 8.0, place);
    }
    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {
        self.add(IMAGE_WEIGHT, self.page);
    }
    fn push_clip_path(&mut self, clip: &ClipPath) {
        self.add(1.0 + clip.path.elements().len() as f64 / 8.0, Rect::ZERO);
    }
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {
        self.add(LAYER_WEIGHT, Rect::ZERO);
    }
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

/// A device that keeps characters.
struct TextDevice {
    page: PageText,
    chars: usize,
    last: Option<LastChar>,
    /// Where the last run began, to know one that is only drawn again.
    run: Option<Point>,
    /// Of the last character; the next one nearly always stands the same way.
    stance: TextStance,
    font: FontCache,
}

/// How characters stand and how large they are, wherever they are.
#[derive(Clone, Copy)]
struct TextStance {
    /// What a transformation has of it.
    of: [f64; 4],
    /// Along the line, of length 1.
    right: (f64, f64),
    /// The length of what was 1 along the line.
    unit: f64,
    /// The height of a character.
    size: f64,
}

impl TextStance {
    fn from_matrix([a, b, c, d]: [f64; 4]) -> TextStance {
        let unit = a.hypot(b);
        let right = if unit > 0.0 { (a / unit, b / unit) } else { (1.0, 0.0) };
        TextStance { of: [a, b, c, d], right, unit, size: (c.hypot(d) * 1_000.0).max(0.01) }
    }
}

/// What a font says of a code.
#[derive(Clone)]
struct FontLetter {
    width: f64,
    text: Option<BfString>,
}

impl FontLetter {
    fn from_glyph(glyph: &Glyph<'_>) -> FontLetter {
        let width = match glyph {
            Glyph::Outline(outline) => outline.advance_width(),
            Glyph::Type3(drawn) => drawn.advance_width(),
        };
        FontLetter { width: f64::from(width.unwrap_or(500.0)), text: glyph.as_unicode() }
    }
}

/// The letters of a run that were looked up; all of them are of one font. To look one up takes as long as all
/// the rest, and most of them come again.
struct FontCache {
    /// In which run each was looked up, by its code.
    known: Vec<(u64, FontLetter)>,
    run: u64,
}

impl Default for FontCache {
    fn default() -> FontCache {
        FontCache { known: vec![(0, FontLetter { width: 0.0, text: None }); 256], run: 0 }
    }
}

impl FontCache {
    /// The next run may be of another font.
    fn forget(&mut self) {
        self.run += 1;
    }

    fn letter(&mut self, glyph: &Glyph<'_>) -> FontLetter {
        let Some((run, known)) = self.known.get_mut(glyph.char_code() as usize) else {
            return FontLetter::from_glyph(glyph);
        };
        if *run != self.run {
            (*run, *known) = (self.run, FontLetter::from_glyph(glyph));
        }
        known.clone()
    }
}

/// Where the last character ended.
struct LastChar {
    end: Point,
    /// Along the line, of length 1.
    along: (f64, f64),
    size: f64,
}

impl Default for TextDevice {
    fn default() -> TextDevice {
        let (stance, font) = (TextStance::from_matrix([0.0; 4]), FontCache::default());
        TextDevice { page: PageText::default(), chars: 0, last: None, run: None, stance, font }
    }
}

impl TextDevice {
    /// Leaves the page once it has said all that is kept of it.
    fn look(&self) {
        if self.chars >= PAGE_CHARS_MAX {
            stop_drawing();
        }
    }

    fn finish(mut self) -> PageText {
        let lines: Vec<&str> = self.page.text.lines().map(str::trim_end).collect();
        self.page.text = lines.join("\n").trim().to_owned();
        self.page
    }

    fn glyph(&mut self, glyph: &Glyph<'_>, place: Affine) {
        let FontLetter { width, text } = self.font.letter(glyph);
        let [a, b, c, d, e, f] = place.as_coeffs();
        if self.stance.of != [a, b, c, d] {
            self.stance = TextStance::from_matrix([a, b, c, d]);
        }
        let TextStance { right, unit, size, .. } = self.stance;
        let (begin, end) = (Point::new(e, f), Point::new(a * width + e, b * width + f));
        let along = match width * unit {
            advance if advance > 1e-9 => right,
            advance if advance < -1e-9 => (-right.0, -right.1),
            _ => (1.0, 0.0),
        };
        self.break_before(begin, along, size);
        match text {
            Some(BfString::Char(c)) => self.letter(c),
            Some(BfString::String(text)) => text.chars().for_each(|c| self.letter(c)),
            None => {
                self.page.unreadable += 1;
                self.letter('\u{fffd}');
            }
        }
        self.last = Some(LastChar { end, along, size });
    }

    fn letter(&mut self, c: char) {
        match c {
            '\u{a0}' => self.push(' '),
            c if c.is_control() => {}
            c => self.push(c),
        }
    }

    /// A space or an end of the line, if there is one before this place.
    fn break_before(&mut self, begin: Point, along: (f64, f64), size: f64) {
        let Some(last) = &self.last else { return };
        let gap = begin - last.end;
        let em = size.max(last.size);
        let ahead = gap.x * last.along.0 + gap.y * last.along.1;
        let aside = gap.x * -last.along.1 + gap.y * last.along.0;
        let turned = along.0 * last.along.0 + along.1 * last.along.1 < 0.9;
        if turned || aside.abs() > em * 0.5 || ahead < -em * 1.5 {
            // Lines of a paragraph stand closer than one and a half.
            let far = turned || aside.abs() > em * 1.9;
            self.end_line(far);
        } else if ahead > em * 0.15 && !self.page.text.ends_with([' ', '\n']) {
            self.push(' ');
        }
    }

    fn end_line(&mut self, far: bool) {
        let text = &mut self.page.text;
        text.truncate(text.trim_end_matches(' ').len());
        if !text.is_empty() && !text.ends_with('\n') {
            self.push('\n');
        }
        if far && !self.page.text.is_empty() && !self.page.text.ends_with("\n\n") {
            self.push('\n');
        }
    }

    fn push(&mut self, c: char) {
        if self.chars < PAGE_CHARS_MAX {
            self.page.text.push(c);
            self.chars += 1;
        }
    }
}

impl<'a> Device<'a> for TextDevice {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, mode: &DrawMode) {
        self.look();
        let Some(first) = run.glyphs().first() else { return };
        let begin = props.transform * first.transform() * Point::ZERO;
        // Filled and outlined letters are drawn twice.
        if matches!(mode, DrawMode::Stroke(_)) && self.run == Some(begin) {
            return;
        }
        self.run = Some(begin);
        self.font.forget();
        for glyph in run.glyphs() {
            self.glyph(glyph, props.transform * glyph.transform());
        }
    }

    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {
        self.look();
        self.page.has_pictures = true;
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {
        self.look();
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.look();
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {
        self.look();
    }

    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A document of these pages, each a stream of drawing instructions; fonts `F1` (Helvetica) and `F2`
    /// (Times).
    pub(crate) fn sample(pages: &[&str]) -> Vec<u8> {
        let mut objects: Vec<String> = Vec::new();
        let kids: Vec<String> = (0..pages.len()).map(|at| format!("{} 0 R", 5 + 2 * at)).collect();
        objects.push("<< /Type /Catalog /Pages 2 0 R >>".to_owned());
        objects.push(format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()));
        for font in ["Helvetica", "Times-Roman"] {
            objects.push(format!(
                "<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>"
            ));
        }
        for (at, page) in pages.iter().enumerate() {
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents {} 0 R \
                 /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>",
                6 + 2 * at
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{page}\nendstream", page.len()));
        }
        let mut text = "%PDF-1.7\n".to_owned();
        let mut places = Vec::new();
        for (at, object) in objects.iter().enumerate() {
            places.push(text.len());
            text.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
        }
        let table = text.len();
        text.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1));
        places.iter().for_each(|place| text.push_str(&format!("{place:010} 00000 n \n")));
        text.push_str(&format!(
            "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
            objects.len() + 1
        ));
        text.into_bytes()
    }

    fn texts(bytes: Vec<u8>) -> Vec<PageText> {
        let document = PdfDocument::open(bytes).unwrap();
        let mut texts = Vec::new();
        document.texts(0..document.pages(), |_, text| {
            texts.push(text);
            true
        });
        texts
    }

    #[track_caller]
    fn check(page: &str, expected: &str) {
        assert_eq!(texts(sample(&[page]))[0].text, expected);
    }

    #[test]
    fn characters_become_words_lines_and_paragraphs() {
        check("BT /F1 12 Tf 20 150 Td (Hello, world) Tj ET", "Hello, world");
        check(
            "BT /F1 12 Tf 20 150 Td (one) Tj 0 -14 Td (two) Tj 0 -40 Td (three) Tj ET",
            "one\ntwo\n\nthree",
        );
        check("BT /F1 12 Tf 20 150 Td [(sp) -20 (lit) -600 (word)] TJ ET", "split word");
        check("BT /F2 10 Tf 20 150 Td (caf\\351 \\223quoted\\224) Tj ET", "café \u{201c}quoted\u{201d}");
        check("BT /F1 12 Tf 20 150 Td (left) Tj 150 0 Td (right) Tj ET", "left right");
        check("q 0 1 -1 0 100 20 cm BT /F1 12 Tf 0 0 Td (up) Tj (ward) Tj ET Q", "upward");
        check("BT /F1 12 Tf 2 Tr 20 150 Td (bold) Tj ET", "bold");
        check("BT /F1 12 Tf 3 Tr 20 150 Td (hidden) Tj ET", "hidden");
        check("", "");
    }

    /// A page that says more than is kept of it is left where that is reached.
    #[test]
    fn a_page_without_an_end_is_left() {
        let endless = "BT /F1 1 Tf (AAAAAAAAAAAAAAAAAAAA) Tj ET\n".repeat(20_000);
        let bytes = sample(&[&endless, "BT /F1 12 Tf 20 150 Td (next) Tj ET"]);
        let drawn = std::cell::Cell::new(0);
        let document = PdfDocument::open(bytes).unwrap();
        document.texts(0..2, |at, page| {
            drawn.set(drawn.get() + 1);
            let chars = page.text.chars().count();
            match at {
                0 => assert!((PAGE_CHARS_MAX - 100..=PAGE_CHARS_MAX).contains(&chars), "{chars}"),
                _ => assert_eq!(page.text, "next"),
            }
            true
        });
        assert_eq!(drawn.get(), 2);
        assert_eq!(document.picture_of(0, 10_000.0).err().unwrap(), "too much is drawn on it");
    }

    #[test]
    fn a_page_can_be_drawn() {
        let document = PdfDocument::open(sample(&["BT /F1 40 Tf 20 100 Td (Hi) Tj ET"])).unwrap();
        let picture = document.picture(0).unwrap();
        assert_eq!((picture.media_type, picture.words.as_str()), ("image/png", "600×400"));
        let pixels = image::load_from_memory(&picture.bytes).unwrap().into_luma8();
        let dark = pixels.pixels().filter(|pixel| pixel.0[0] < 128).count();
        assert!(dark > 500 && dark < 60_000, "{dark}");
    }

    #[test]
    fn what_can_not_be_opened_is_told_why() {
        let why = |bytes: &[u8]| PdfDocument::open(bytes.to_vec()).err().unwrap();
        assert_eq!(why(b"%PDF-1.7\nnothing"), "it is damaged: its structure can't be read");
        let text = String::from_utf8(sample(&[""])).unwrap();
        let none = text.replace("/Kids [5 0 R] /Count 1", "/Kids [      ] /Count 0");
        assert!(
            ["it has no pages", "it is damaged: its structure can't be read"]
                .contains(&&*why(none.as_bytes()))
        );
        let encrypted = text.replace(
            "/Root 1 0 R >>",
            "/Root 1 0 R /ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>] /Encrypt << /Filter \
             /Standard /V 2 /R 3 /Length 128 /P -4 /O <0101010101010101010101010101010101010101010101010101010101010101> /U \
             <0202020202020202020202020202020202020202020202020202020202020202> >> >>",
        );
        assert!(why(encrypted.as_bytes()).starts_with("it is encrypted"), "{}", why(encrypted.as_bytes()));
    }

    /// Every cut and many broken bytes: an error or some text, never a panic that gets out.
    #[test]
    fn damage_ends_no_program() {
        let whole = sample(&["BT /F1 12 Tf 20 150 Td (Hello) Tj ET", "BT /F2 9 Tf 1 1 Td (x) Tj ET"]);
        for cut in (0..whole.len()).step_by(37) {
            let bytes = whole[..cut].to_vec();
            let _ = std::panic::catch_unwind(|| PdfDocument::open(bytes).map(|document| document.pages()));
        }
        for at in (0..whole.len()).step_by(11) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x15;
            let _ = std::panic::catch_unwind(|| {
                PdfDocument::open(bytes).map(|document| document.texts(0..document.pages(), |_, _| true))
            });
        }
    }
}
