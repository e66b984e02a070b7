//! Pixels: PNG files, and SVG drawn into them with the font that comes with this program.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, PremultipliedColorU8, Transform};
use resvg::usvg::{Options, Tree, fontdb};

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    for font in [
        &include_bytes!("../../assets/font/DejaVuSans-latin.ttf")[..],
        &include_bytes!("../../assets/font/DejaVuSans-Bold-latin.ttf")[..],
    ] {
        fonts.load_font_data(font.to_vec());
    }
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// Pixels of a PNG for each pixel of the SVG: sharp on dense screens and on paper.
const DENSITY: f32 = 2.0;

/// A picture of this module as PNG, twice as many pixels each way. Empty for what is no SVG, or is too
/// large to be drawn.
#[must_use]
pub fn png(svg: &str) -> Vec<u8> {
    let Some(tree) = tree(svg) else { return Vec::new() };
    let size = tree.size();
    let pixels = |length: f32| (length * DENSITY).ceil() as u32;
    let Some(mut pixmap) = Pixmap::new(pixels(size.width()), pixels(size.height())) else {
        return Vec::new();
    };
    resvg::render(&tree, Transform::from_scale(DENSITY, DENSITY), &mut pixmap.as_mut());
    encode_pixmap(&pixmap)
}

/// An SVG, read; `None` for what is none.
pub fn tree(svg: &str) -> Option<Tree> {
    let options = Options {
        fontdb: Arc::clone(&FONTS),
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    Tree::from_str(svg, &options).ok()
}

/// A pixmap without gaps as PNG.
pub fn encode_pixmap(pixmap: &Pixmap) -> Vec<u8> {
    let straight = pixmap.pixels().iter().flat_map(|pixel| {
        let color = PremultipliedColorU8::demultiply(pixel);
        [color.red(), color.green(), color.blue()]
    });
    let pixels: Vec<u8> = straight.collect();
    write(pixmap.width(), pixmap.height(), png::ColorType::Rgb, &pixels)
}

/// Rows of red, green, blue and opacity as PNG.
pub fn encode(width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    write(size(width), size(height), png::ColorType::Rgba, pixels)
}

fn write(width: u32, height: u32, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    // Writing into memory fails only where the length is not that of the size.
    if written.is_err() {
        return Vec::new();
    }
    file
}
