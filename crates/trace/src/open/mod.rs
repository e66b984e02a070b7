//! Opening a trace whatever its form: found out from its first bytes, never from its name.

mod ahead;
pub(crate) mod input;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use fsdyno_model::trace::TraceSource;

use crate::blktrace::{self, Layout};
use crate::stored;
use ahead::Ahead;
use input::Input;

/// Bytes of a file that are read at once: they are decoded while a processor still has them near.
const ROOM_BYTES: usize = 128 << 10;
/// What stands between the name of a trace of blktrace(8) and the number of a processor.
const INFIX: &[u8] = b".blktrace.";

/// Opens a trace. `path` is one of our own files; a file of blktrace(8), one processor's or all of them
/// (`NAME.blktrace.0` stands for all of `NAME.blktrace.*`, and so does `NAME`); or a stream of the `blk`
/// tracer. `-` is standard input. It is read ahead on a thread of its own.
///
/// # Errors
/// Those of the filesystem; `InvalidData` when it is no trace that is known.
pub fn open(path: &Path) -> io::Result<Box<dyn TraceSource>> {
    if path == Path::new("-") {
        let input = Input::new(Box::new(io::stdin()), "standard input".to_owned(), ROOM_BYTES);
        return open_inputs(vec![input]);
    }
    open_files(&files_of(path)?)
}

/// Opens the files of one trace: several are those of blktrace(8), one of each processor.
///
/// # Errors
/// As of [`open`].
pub fn open_files(paths: &[PathBuf]) -> io::Result<Box<dyn TraceSource>> {
    let mut inputs =
        paths.iter().map(|path| Input::open(path, ROOM_BYTES)).collect::<io::Result<Vec<_>>>()?;
    if let ([path], [input]) = (paths, inputs.as_mut_slice())
        && stored::is_ours(input.fill(Layout::DETECT_BYTES)?)
    {
        // It looks at the end of the file first.
        return Ok(Box::new(Ahead::new(stored::Reader::open(path)?)?));
    }
    open_inputs(inputs)
}

/// Sorts paths as a shell gives them for `*.blktrace.*` into traces: the files of each. What is not
/// named like a file of blktrace(8) is a trace of its own.
///
/// # Errors
/// Those of [`open`] for paths that name no file.
pub fn group(paths: &[PathBuf]) -> io::Result<Vec<Vec<PathBuf>>> {
    let mut traces: Vec<Vec<PathBuf>> = Vec::new();
    let mut places: BTreeMap<OsString, usize> = BTreeMap::new();
    for path in paths {
        let files = if path == Path::new("-") { vec![path.clone()] } else { files_of(path)? };
        let Some((name, _)) = files.first().and_then(|file| split(file)) else {
            traces.push(files);
            continue;
        };
        let place = *places.entry(name).or_insert_with(|| {
            traces.push(Vec::new());
            traces.len() - 1
        });
        for file in files {
            if !traces[place].contains(&file) {
                traces[place].push(file);
            }
        }
    }
    Ok(traces)
}

fn open_inputs(inputs: Vec<Input>) -> io::Result<Box<dyn TraceSource>> {
    let count = inputs.len();
    let mut known = Vec::with_capacity(count);
    let mut names = Vec::with_capacity(count);
    for mut input in inputs {
        names.push(input.name().to_owned());
        let bytes = input.fill(Layout::DETECT_BYTES)?;
        if stored::is_ours(bytes) {
            if count > 1 {
                return Err(invalid(input.name(), "is a trace of its own; open it alone"));
            }
            return Ok(Box::new(Ahead::new(stored::Reader::new(input)?)?));
        }
        // A processor that did nothing has an empty file.
        if bytes.is_empty() {
            continue;
        }
        match Layout::detect(bytes) {
            Some(layout) if layout.is_known() => known.push((input, layout)),
            Some(layout) => {
                let text = format!(
                    "has records of blktrace version {}, and only 7 and 8 are known: \
                     write it again with blkparse -d of another version",
                    layout.version
                );
                return Err(invalid(input.name(), &text));
            }
            None => {
                let text = "is no trace: neither one of fsdyno, nor a file of blktrace, nor a \
                            stream of the blk tracer with trace_options `bin`";
                return Err(invalid(input.name(), text));
            }
        }
    }
    if known.is_empty() {
        return Err(invalid(&names.join(", "), "nothing was traced: no bytes"));
    }
    Ok(Box::new(Ahead::new(blktrace::Reader::new(known))?))
}

fn invalid(name: &str, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {what}"))
}

/// `NAME` and `*` or the number of a processor, of `NAME.blktrace.NUMBER`.
fn split(path: &Path) -> Option<(OsString, &[u8])> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.windows(INFIX.len()).rposition(|window| window == INFIX)?;
    let number = &bytes[at + INFIX.len()..];
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let name = OsString::from_vec(bytes[..at].to_vec());
    (is_number || number == b"*").then_some((name, number))
}

/// The files that a path stands for.
fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let is_file = path.exists() && !path.is_dir();
    let stem = match split(path) {
        Some((name, b"*" | b"0")) => name,
        Some(_) => return Ok(vec![path.to_owned()]),
        None if is_file => return Ok(vec![path.to_owned()]),
        None => {
            let bytes = path.as_os_str().as_bytes();
            OsString::from_vec(bytes.strip_suffix(b".blktrace").unwrap_or(bytes).to_vec())
        }
    };
    let files = siblings(Path::new(&stem))?;
    match files.is_empty() {
        false => Ok(files),
        // Reading it says what is wrong with it.
        true if path.exists() => Ok(vec![path.to_owned()]),
        true => {
            let text = format!(
                "{}: no such file, nor {}.blktrace.0",
                path.display(),
                Path::new(&stem).display()
            );
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        }
    }
}

/// `STEM.blktrace.NUMBER`, in the order of their numbers.
fn siblings(stem: &Path) -> io::Result<Vec<PathBuf>> {
    let directory = match stem.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Some(name) = stem.file_name() else { return Ok(Vec::new()) };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(_) => return Ok(Vec::new()),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry_name = entry?.file_name();
        if let Some((entry_stem, number)) = split(Path::new(&entry_name))
            && entry_stem == *name
            && let Some(number) =
                std::str::from_utf8(number).ok().and_then(|n| n.parse::<u32>().ok())
        {
            files.push((number, stem.with_file_name(&entry_name)));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, file)| file).collect())
}
