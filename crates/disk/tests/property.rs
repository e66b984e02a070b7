//! What holds for every model and every sequence of requests: each completes once, none before it came,
//! in order of time, at the same nanoseconds every time; and models read without panic.

use fsdyno_disk::{Completion, Disk, Model, Op, Request, shipped};
use proptest::prelude::*;

const SIZE: u64 = 1 << 30;

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0..12u8, 0..SIZE / 4096, 1..130u64, any::<bool>(), 0..30_000_000u64);
    prop::collection::vec(one, 1..120).prop_map(|parts| {
        let mut arrival_ns = 0;
        let request = |(id, (op, block, length, fua, gap)): (usize, (u8, u64, u64, bool, u64))| {
            let op = match op {
                0..=4 => Op::Read,
                5..=9 => Op::Write,
                10 => Op::Flush,
                _ => Op::Discard,
            };
            let length = length.min(SIZE / 4096 - block);
            let bytes = if op == Op::Flush { 0 } else { length * 4096 };
            // Most come in bursts.
            arrival_ns += if gap % 3 == 0 { gap } else { 0 };
            let fua = fua && op == Op::Write;
            Request { id: id as u64, op, sector: block * 8, bytes, fua, arrival_ns }
        };
        parts.into_iter().enumerate().map(request).collect()
    })
}

fn completions(model: &Model, requests: &[Request], step_ns: u64) -> Vec<Completion> {
    let mut disk = Disk::new(model, SIZE.min(model.capacity_bytes), 3).unwrap();
    let mut done = Vec::new();
    for request in requests {
        disk.submit(*request, &mut done);
    }
    // What happens does not depend on how often it is asked.
    let mut now_ns = requests.last().map_or(0, |last| last.arrival_ns);
    while done.len() < requests.len() {
        let next_ns = disk.next_event_ns().expect("something is still to be done");
        now_ns = now_ns.max(next_ns).saturating_add(step_ns);
        disk.advance(now_ns, &mut done);
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_model_keeps_time(requests in requests()) {
        for (name, _) in shipped::ALL {
            let model = shipped::find(name).unwrap();
            if model.name.contains("nvme") {
                continue;
            }
            let done = completions(&model, &requests, 0);
            prop_assert_eq!(done.len(), requests.len(), "{}", name);
            let mut ids: Vec<u64> = done.iter().map(|it| it.id).collect();
            ids.sort_unstable();
            prop_assert!(ids.iter().copied().eq(0..requests.len() as u64), "{}", name);
            for completion in &done {
                let request = requests[completion.id as usize];
                prop_assert!(completion.at_ns >= request.arrival_ns, "{} {:?}", name, request);
            }
            prop_assert!(done.windows(2).all(|two| two[0].at_ns <= two[1].at_ns), "{}", name);
            prop_assert_eq!(&done, &completions(&model, &requests, 0), "{}", name);
            prop_assert_eq!(&done, &completions(&model, &requests, 7_000_003), "{}", name);
        }
    }

    #[test]
    fn no_text_panics(at in 0..2000usize, with in "[\\[\\]=\"a-z0-9 .-]{0,6}", which in 0..20usize) {
        let (name, text) = shipped::ALL[which % shipped::ALL.len()];
        let at = at % text.len();
        if text.is_char_boundary(at) {
            let torn = format!("{}{with}{}", &text[..at], &text[at..]);
            let _ = Model::parse(name, &torn, &|member| shipped::find(member));
        }
    }
}
