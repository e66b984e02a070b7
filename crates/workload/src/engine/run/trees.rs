//! Plans the calls of operations on names: attributes, directories, links, copies and the replay of a
//! list. What an open file holds is left to [`super::blocks`].

use std::sync::atomic::Ordering;

use fsdyno_sys::calls::OpenFlags;

use super::pick::Want;
use super::planner::{Call, Entry, FROM, Lane, Planner, TO};
use super::program::{Action, CHUNK_BYTES};
use super::world::key_of;
use crate::engine::definition::{FilesetIndex, Op, Usage};

/// Takes an entry, or returns what is to be done instead.
macro_rules! picked {
    ($self:ident, $lane:ident, $action:ident, $want:expr) => {
        match $self.pick($lane, $action, $want) {
            Ok(entry) => entry,
            Err(call) => return Some(call),
        }
    };
}

impl<'p> Planner<'p> {
    #[inline]
    fn number(&self, entry: Entry) -> u64 {
        self.set(entry).name(entry.index)
    }

    /// Asks for attributes.
    #[inline]
    pub(super) fn stat(&mut self, lane: &mut Lane, action: &'p Action<'p>) -> Option<Call<'p>> {
        if lane.stage == 0 {
            lane.work.entry = picked!(self, lane, action, Want::Use);
            lane.stage = 1;
            return Some(Call::Stat { set: lane.work.entry.fileset });
        }
        self.world.entries.leave(lane.work.entry.inode);
        None
    }

    /// Opens, lists and closes the directory of an entry.
    pub(super) fn readdir(&mut self, lane: &mut Lane, action: &'p Action<'p>) -> Option<Call<'p>> {
        lane.stage += 1;
        match lane.stage {
            1 => {
                let entry = match self.pick(lane, action, Want::Any) {
                    Ok(entry) => entry,
                    Err(call) => {
                        lane.stage = 0;
                        return Some(call);
                    }
                };
                lane.work.entry = entry;
                self.set(entry).layout.directory(entry.index, &mut lane.name);
                Some(Call::OpenDirectory { set: entry.fileset })
            }
            2 => Some(Call::List),
            3 => Some(Call::Close { place: FROM }),
            _ => None,
        }
    }

    /// Removes a file, a link or a directory.
    #[inline]
    pub(super) fn remove(&mut self, lane: &mut Lane, action: &'p Action<'p>) -> Option<Call<'p>> {
        if lane.stage == 0 {
            lane.work.entry = picked!(self, lane, action, Want::Alone);
            lane.stage = 1;
            let set = lane.work.entry.fileset;
            let file = matches!(action.op, Op::Unlink { .. });
            return Some(if file { Call::Unlink { set } } else { Call::Rmdir { set } });
        }
        self.world.entries.drop_link(lane.work.entry.inode);
        self.world.entries.vanish(self.number(lane.work.entry));
        None
    }

    /// Makes a directory.
    pub(super) fn mkdir(&mut self, lane: &mut Lane, action: &'p Action<'p>) -> Option<Call<'p>> {
        if lane.stage == 0 {
            lane.work.entry = picked!(self, lane, action, Want::Absent);
            lane.stage = 1;
            return Some(Call::Mkdir { set: lane.work.entry.fileset });
        }
        self.appear(lane.work.entry);
        None
    }

    /// Notes that an entry that was taken exists now, as a file of its own.
    fn appear(&mut self, entry: Entry) -> u32 {
        let content = self.fresh_content();
        let number = self.number(entry);
        let inode = self.world.entries.new_inode(number, content);
        self.world.entries.leave(inode);
        self.world.entries.appear(number, inode);
        inode
    }

    /// Gives an entry the name of another.
    pub(super) fn rename(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        into: FilesetIndex,
    ) -> Option<Call<'p>> {
        let entries = &self.world.entries;
        if lane.stage == 0 {
            let entry = picked!(self, lane, action, Want::Alone);
            let Some(new) = self.pick_into(lane, into) else {
                entries.appear(self.number(entry), entry.inode);
                return Some(self.skip(lane, action));
            };
            (lane.work.entry, lane.work.into) = (entry, new);
            lane.stage = 1;
            return Some(Call::Rename { from: entry.fileset, to: into });
        }
        entries.appear(self.number(lane.work.into), lane.work.entry.inode);
        entries.vanish(self.number(lane.work.entry));
        None
    }

    /// Gives a file one more name.
    pub(super) fn link(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        into: FilesetIndex,
    ) -> Option<Call<'p>> {
        let entries = &self.world.entries;
        if lane.stage == 0 {
            let entry = picked!(self, lane, action, Want::Use);
            let new = self.pick_into(lane, into);
            let Some(new) = new.filter(|new| self.may_link(entry, *new)) else {
                entries.leave(entry.inode);
                return Some(self.skip(lane, action));
            };
            (lane.work.entry, lane.work.into) = (entry, new);
            lane.stage = 1;
            return Some(Call::Link { from: entry.fileset, to: into });
        }
        entries.appear(self.number(lane.work.into), lane.work.entry.inode);
        entries.leave(lane.work.entry.inode);
        None
    }

    /// Counts the link; where there are too many, `new` is given back.
    fn may_link(&self, entry: Entry, new: Entry) -> bool {
        let may = self.world.entries.add_link(entry.inode);
        if !may {
            self.world.entries.vanish(self.number(new));
        }
        may
    }

    /// Makes a symbolic link to a file.
    pub(super) fn symlink(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        into: FilesetIndex,
    ) -> Option<Call<'p>> {
        let entries = &self.world.entries;
        if lane.stage == 0 {
            let entry = picked!(self, lane, action, Want::Use);
            let Some(new) = self.pick_into(lane, into) else {
                entries.leave(entry.inode);
                return Some(self.skip(lane, action));
            };
            (lane.work.entry, lane.work.into) = (entry, new);
            let to = &self.set(entry).layout;
            self.set(new).layout.target(new.index, to, entry.index, &mut lane.target);
            lane.stage = 1;
            return Some(Call::Symlink { to: into });
        }
        entries.leave(lane.work.entry.inode);
        self.appear(lane.work.into);
        None
    }

    /// Copies a file, by the kernel or by sharing its extents. Nobody writes into it meanwhile.
    pub(super) fn copy(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        (into, share): (FilesetIndex, bool),
        result: u64,
    ) -> Option<Call<'p>> {
        let entries = &self.world.entries;
        loop {
            match lane.stage {
                0 => return Some(self.begin_copy(lane, action, into)),
                1 => {
                    lane.stage = if share { 3 } else { 2 };
                    (lane.work.offset, lane.work.end) = (0, entries.size(lane.work.entry.inode));
                    lane.work.count = u64::MAX;
                    let flags = OpenFlags { create: true, exclusive: true, ..OpenFlags::WRITE };
                    return Some(Call::Open { set: into, place: TO, flags });
                }
                2 => {
                    // What the call before has copied; there was none at first.
                    if lane.work.count != u64::MAX {
                        if result == 0 {
                            let (offset, expected) = (lane.work.offset, lane.work.count);
                            let found = 0;
                            return Some(Call::Short { place: FROM, offset, expected, found });
                        }
                        lane.work.offset += result;
                    }
                    if lane.work.offset < lane.work.end {
                        let offset = lane.work.offset;
                        lane.work.count = lane.work.end - offset;
                        return Some(Call::CopyRange { offset, count: lane.work.count });
                    }
                    lane.stage = 4;
                }
                3 => {
                    lane.stage = 4;
                    return Some(Call::Reflink);
                }
                4 => {
                    lane.stage = 5;
                    return Some(Call::Close { place: TO });
                }
                5 => {
                    lane.stage = 6;
                    return Some(Call::Close { place: FROM });
                }
                _ => {
                    let from = lane.work.entry.inode;
                    let inode = self.appear(lane.work.into);
                    entries.set_content(inode, entries.content(from));
                    entries.set_size(inode, lane.work.end);
                    entries.set_known(inode, entries.is_known(from));
                    entries.end_exclusive(from);
                    entries.leave(from);
                    return None;
                }
            }
        }
    }

    fn begin_copy(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        into: FilesetIndex,
    ) -> Call<'p> {
        let entries = &self.world.entries;
        let entry = match self.pick(lane, action, Want::Use) {
            Ok(entry) => entry,
            Err(call) => return call,
        };
        if !entries.begin_exclusive(entry.inode) {
            entries.leave(entry.inode);
            return self.later(action);
        }
        let Some(new) = self.pick_into(lane, into) else {
            entries.end_exclusive(entry.inode);
            entries.leave(entry.inode);
            return self.skip(lane, action);
        };
        (lane.work.entry, lane.work.into) = (entry, new);
        lane.stage = 1;
        Call::Open { set: entry.fileset, place: FROM, flags: OpenFlags::READ }
    }

    /// Does what the next line of a list says.
    pub(super) fn replay(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        fileset: FilesetIndex,
        result: u64,
    ) -> Option<Call<'p>> {
        let world = self.world;
        let set = &world.sets[fileset];
        let memory = &mut self.memories[action.number];
        if lane.stage == 0 && memory.cursor == memory.end {
            let taken = &self.program.taken[action.number];
            memory.cursor = taken.fetch_add(1, Ordering::Relaxed);
            memory.end = memory.cursor + 1;
        }
        let Some((index, line)) = set.lines.get(memory.end.wrapping_sub(1) as usize) else {
            return Some(Call::UsedUp);
        };
        if lane.stage == 0 {
            let Some(inode) = world.entries.enter(set.name(*index)) else {
                memory.cursor = memory.end;
                return Some(self.skip(lane, action));
            };
            if let Usage::AppendDurably { .. } = line.usage
                && !world.entries.begin_write(inode)
            {
                world.entries.leave(inode);
                return Some(Call::Blocked);
            }
            memory.cursor = memory.end;
            lane.work.entry = Entry { fileset, index: *index, inode };
            set.layout.path(*index, &mut lane.name);
        }
        lane.stage += 1;
        let call = match line.usage {
            Usage::Stat => (lane.stage == 1).then_some(Call::Stat { set: fileset }),
            Usage::Read { offset_bytes, count_bytes } => {
                self.replay_read(lane, (offset_bytes, count_bytes), result)
            }
            Usage::AppendDurably { count_bytes } => self.replay_append(lane, count_bytes),
        };
        if call.is_none() {
            if let Usage::AppendDurably { .. } = line.usage {
                world.entries.end_write(lane.work.entry.inode);
            }
            world.entries.leave(lane.work.entry.inode);
        }
        call
    }

    fn replay_read(
        &mut self,
        lane: &mut Lane,
        (offset, count): (u64, u64),
        result: u64,
    ) -> Option<Call<'p>> {
        let Entry { fileset: set, inode, .. } = lane.work.entry;
        match lane.stage {
            1 => return Some(Call::Open { set, place: FROM, flags: OpenFlags::READ }),
            2 => {
                let size = self.world.entries.size(inode);
                lane.work.offset = offset.min(size);
                lane.work.end = offset.saturating_add(count).min(size);
            }
            3 if result == 0 => {
                let (offset, expected) = (lane.work.offset, lane.work.end - lane.work.offset);
                return Some(Call::Short { place: FROM, offset, expected, found: 0 });
            }
            3 => lane.work.offset += result,
            _ => return None,
        }
        let offset = lane.work.offset;
        if offset >= lane.work.end {
            // One more, and it is done.
            lane.stage = 3;
            return Some(Call::Close { place: FROM });
        }
        lane.stage = 2;
        let count = CHUNK_BYTES.min(lane.work.end - offset);
        Some(Call::Read { place: FROM, offset, count })
    }

    fn replay_append(&mut self, lane: &mut Lane, count: u64) -> Option<Call<'p>> {
        let Entry { fileset: set, inode, .. } = lane.work.entry;
        let entries = &self.world.entries;
        match lane.stage {
            1 => {
                lane.work.key = key_of(entries.content(inode));
                return Some(Call::Open { set, place: FROM, flags: OpenFlags::WRITE });
            }
            2 => {
                lane.work.offset = entries.extend(inode, count);
                lane.work.end = lane.work.offset + count;
            }
            4 => return Some(Call::Close { place: FROM }),
            5 => return None,
            _ => {}
        }
        let offset = lane.work.offset;
        if offset == lane.work.end {
            lane.stage = 3;
            return Some(Call::Fsync { place: FROM });
        }
        // Again until all is written, then on to the next stage.
        let count = CHUNK_BYTES.min(lane.work.end - offset);
        lane.work.offset += count;
        lane.stage = 2;
        Some(Call::Write { place: FROM, offset, count, key: lane.work.key })
    }
}
