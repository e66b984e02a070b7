//! The chain of open directories that the name of an entry leads through. Names are opened one by one
//! relative to the directory before and symbolic links are never followed, so that no name leads out
//! of the root. Neighbours in an archive mostly share a directory, which then stays open.

use fsdyno_sys::Errno;
use fsdyno_sys::calls::{Calls, FileKind};

use super::entries::EntryName;
use crate::failure::call_failed;
use crate::recorder::{Operation, Recorder};

/// Most directories open at a time, one below the other: well under the usual limit of 1024 files.
pub(super) const DEPTH: usize = 256;

/// Why the chain cannot be opened.
pub(super) enum Obstacle {
    /// The archive asks for something that is never done.
    Refused(String),
    /// A call failed.
    Failed(fsdyno_sys::SysError),
}

/// The chain.
pub(super) struct Directories<C: Calls> {
    /// Names of the open directories, each ended with NUL.
    names: Vec<u8>,
    /// Where in `names` each ends, and the directory.
    open: Vec<(usize, C::Fd)>,
}

impl<C: Calls> Directories<C> {
    pub(super) fn new() -> Self {
        Self { names: Vec::with_capacity(4096), open: Vec::with_capacity(DEPTH) }
    }

    /// The directory that the first `depth` components of `name` lead to; makes what is missing when
    /// `make` says so.
    pub(super) fn lead<'d>(
        &'d mut self,
        calls: &C,
        root: &'d C::Fd,
        (name, depth): (&EntryName, usize),
        make: bool,
        recorder: &mut Recorder,
    ) -> Result<&'d C::Fd, Obstacle> {
        let shared = self.shared(name, depth);
        if shared < self.open.len() || shared < depth {
            self.close_below(calls, shared, recorder)?;
            self.extend(calls, root, (name, depth), make, recorder)?;
        }
        Ok(self.open.last().map_or(root, |(_, directory)| directory))
    }

    /// Closes everything.
    pub(super) fn close(&mut self, calls: &C, recorder: &mut Recorder) -> Result<(), Obstacle> {
        self.close_below(calls, 0, recorder)
    }

    /// How many of the open directories `name` leads through.
    fn shared(&self, name: &EntryName, depth: usize) -> usize {
        let mut start = 0;
        for (index, (end, _)) in self.open.iter().enumerate() {
            if index == depth
                || name.component(index).to_bytes_with_nul() != &self.names[start..*end]
            {
                return index;
            }
            start = *end;
        }
        self.open.len()
    }

    fn close_below(
        &mut self,
        calls: &C,
        depth: usize,
        recorder: &mut Recorder,
    ) -> Result<(), Obstacle> {
        if self.open.len() <= depth {
            return Ok(());
        }
        recorder.begin();
        while self.open.len() > depth
            && let Some((_, directory)) = self.open.pop()
        {
            let closed = calls.close(directory);
            closed.map_err(|errno| self.failed("close", errno))?;
            recorder.end(Operation::Close);
            self.names.truncate(self.open.last().map_or(0, |(end, _)| *end));
        }
        Ok(())
    }

    fn extend(
        &mut self,
        calls: &C,
        root: &C::Fd,
        (name, depth): (&EntryName, usize),
        make: bool,
        recorder: &mut Recorder,
    ) -> Result<(), Obstacle> {
        if depth > DEPTH {
            let reason = format!("it lies below more than {DEPTH} directories");
            return Err(Obstacle::Refused(reason));
        }
        recorder.begin();
        for index in self.open.len()..depth {
            let component = name.component(index);
            let parent = self.open.last().map_or(root, |(_, directory)| directory);
            let mut opened = calls.open_dir(parent, component);
            if opened.as_ref().is_err_and(|errno| *errno == Errno::NOENT) && make {
                let made = calls.mkdir(parent, component);
                recorder.end(Operation::Mkdir);
                opened = match made {
                    Ok(()) => calls.open_dir(parent, component),
                    Err(errno) => Err(errno),
                };
            }
            let opened = match opened {
                Ok(directory) => directory,
                Err(errno) => {
                    let facts = calls.stat(parent, component);
                    self.names.extend_from_slice(component.to_bytes_with_nul());
                    return Err(self.obstacle(errno, facts.ok().map(|facts| facts.kind)));
                }
            };
            recorder.end(Operation::Open);
            self.names.extend_from_slice(component.to_bytes_with_nul());
            self.open.push((self.names.len(), opened));
        }
        Ok(())
    }

    #[cold]
    fn obstacle(&mut self, errno: Errno, kind: Option<FileKind>) -> Obstacle {
        let what = match kind {
            Some(FileKind::Symlink) => "a symbolic link",
            Some(FileKind::File | FileKind::Other) => "a file",
            _ => return self.failed("open", errno),
        };
        Obstacle::Refused(format!("{what} lies where its directory `{}` should be", self.path()))
    }

    #[cold]
    fn failed(&self, call: &'static str, errno: Errno) -> Obstacle {
        Obstacle::Failed(call_failed(call, self.path(), errno))
    }

    fn path(&self) -> String {
        let names = self.names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(String::from_utf8_lossy).collect::<Vec<_>>().join("/")
    }
}
