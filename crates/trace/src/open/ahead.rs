//! A trace that is read ahead on a thread of its own, so that reading it and making sense of it take the
//! longer of both times and not their sum. What is read is left to the readers of the forms.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use fsdyno_model::trace::{TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource};

/// Batches under way; some more are being filled and read.
const BATCHES: usize = 8;

/// What the thread hands over.
struct Message {
    events: Vec<TraceEvent>,
    news: News,
    /// Why there is no more; none follows.
    end: Option<io::Result<()>>,
}

/// What became known with the events of a message.
#[derive(Default)]
struct News {
    /// Processes from this index on, replacing what was there.
    first_process: usize,
    processes: Vec<TraceProcess>,
    devices: Option<Vec<TraceDevice>>,
    warnings: Option<Vec<String>>,
    lost_events: u64,
    wall_offset_ns: Option<i64>,
}

/// Reads a trace ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    filled: Receiver<Message>,
    emptied: Sender<Vec<TraceEvent>>,
    info: TraceInfo,
    ended: bool,
}

impl Ahead {
    /// Reads `source` ahead.
    pub(super) fn new<S: TraceSource + Send + 'static>(source: S) -> io::Result<Ahead> {
        let (filled_sender, filled) = sync_channel(BATCHES);
        let (emptied, emptied_receiver) = channel();
        let info = source.info().clone();
        let told = Told { processes: info.processes.len(), ..Told::default() };
        thread::Builder::new()
            .name("trace-reader".to_owned())
            .spawn(move || read(source, told, &filled_sender, &emptied_receiver))?;
        Ok(Ahead { filled, emptied, info, ended: false })
    }

    fn learn(&mut self, news: News) {
        self.info.processes.truncate(news.first_process);
        self.info.processes.extend(news.processes);
        if let Some(devices) = news.devices {
            self.info.devices = devices;
        }
        if let Some(warnings) = news.warnings {
            self.info.warnings = warnings;
        }
        self.info.lost_events = news.lost_events;
        self.info.wall_offset_ns = news.wall_offset_ns;
    }
}

impl TraceSource for Ahead {
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        let Ok(mut message) = self.filled.recv() else {
            self.ended = true;
            return Err(io::Error::other("the thread that reads the trace ended early"));
        };
        self.learn(message.news);
        if let Some(end) = message.end {
            self.ended = true;
            return end.map(|()| false);
        }
        std::mem::swap(batch, &mut message.events);
        // At the end of the trace nobody wants them.
        let _ = self.emptied.send(message.events);
        Ok(true)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

/// How much the other side was told.
#[derive(Default)]
struct Told {
    processes: usize,
    devices: usize,
    warnings: usize,
}

impl Told {
    fn news(&mut self, info: &TraceInfo, is_end: bool) -> News {
        // Names that became known late replace those that stood for them.
        let first_process = if is_end { 0 } else { self.processes };
        let device_is_new = is_end || info.devices.len() != self.devices;
        let warning_is_new = is_end || info.warnings.len() != self.warnings;
        self.processes = info.processes.len();
        self.devices = info.devices.len();
        self.warnings = info.warnings.len();
        News {
            first_process,
            processes: info.processes[first_process..].to_vec(),
            devices: device_is_new.then(|| info.devices.clone()),
            warnings: warning_is_new.then(|| info.warnings.clone()),
            lost_events: info.lost_events,
            wall_offset_ns: info.wall_offset_ns,
        }
    }
}

/// Reads until the end, or until nobody listens.
fn read(
    mut source: impl TraceSource,
    mut told: Told,
    filled: &SyncSender<Message>,
    emptied: &Receiver<Vec<TraceEvent>>,
) {
    loop {
        let mut events = emptied.try_recv().unwrap_or_default();
        let end = match source.next_batch(&mut events) {
            Ok(true) => None,
            Ok(false) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        let is_end = end.is_some();
        let news = told.news(source.info(), is_end);
        if filled.send(Message { events, news, end }).is_err() || is_end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::trace::{Action, Flags};

    use super::*;

    /// Some batches, each with a process and a warning more, and perhaps an error at the end.
    struct Batches {
        left: u32,
        fails: bool,
        info: TraceInfo,
    }

    impl TraceSource for Batches {
        fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
            batch.clear();
            if self.left == 0 {
                self.info.processes[0].name = "late".to_owned();
                return if self.fails { Err(io::Error::other("bad")) } else { Ok(false) };
            }
            self.left -= 1;
            let process = self.info.processes.len() as u32;
            self.info.processes.push(TraceProcess { pid: process, name: format!("p{process}") });
            self.info.warnings.push(format!("w{process}"));
            self.info.lost_events += 1;
            let (flags, action) = (Flags::WRITE, Action::Issue);
            let time_ns = u64::from(process);
            batch.push(TraceEvent {
                time_ns,
                sector: 0,
                sectors: 0,
                device: 0,
                process,
                flags,
                action,
            });
            Ok(true)
        }

        fn info(&self) -> &TraceInfo {
            &self.info
        }
    }

    #[test]
    fn what_is_known_goes_with_the_events() {
        for fails in [false, true] {
            let source = Batches { left: 100, fails, info: TraceInfo::default() };
            let mut ahead = Ahead::new(source).unwrap();
            let mut batch = Vec::new();
            for index in 0..100 {
                assert!(ahead.next_batch(&mut batch).unwrap());
                assert_eq!(batch[0].process, index);
                let info = ahead.info();
                let counts = [info.processes.len(), info.warnings.len(), info.lost_events as usize];
                assert_eq!(counts, [index as usize + 1; 3]);
            }
            assert_eq!(ahead.next_batch(&mut batch).is_err(), fails);
            assert!(batch.is_empty() && !ahead.next_batch(&mut batch).unwrap());
            assert_eq!(
                [&ahead.info().processes[0].name, &ahead.info().processes[1].name],
                ["late", "p1"]
            );
        }
    }

    #[test]
    fn it_may_be_dropped_before_the_end() {
        let source = Batches { left: u32::MAX, fails: false, info: TraceInfo::default() };
        let mut ahead = Ahead::new(source).unwrap();
        assert!(ahead.next_batch(&mut Vec::new()).unwrap());
    }
}
