//! The list is whole, and each metric reads what it says.

use super::*;
use crate::record::Sample;

#[test]
fn names_are_unique_and_documented() {
    for (index, metric) in ALL.iter().enumerate() {
        assert!(!metric.doc.is_empty());
        // What explains performance is not compared, and says what it is a number of.
        if metric.explains {
            assert!(metric.better.is_none() && !metric.unit.is_empty(), "{}", metric.name);
        }
        assert!(ALL[index + 1..].iter().all(|other| other.name != metric.name), "{}", metric.name);
    }
}

#[test]
fn write_amplification_is_of_bytes_written() {
    let told = |bytes, read_bytes, of_device| {
        let mut phase = PhaseRecord::new("create", "elapsed_s");
        (phase.bytes, phase.read_bytes) = (bytes, read_bytes);
        phase.device.write_bytes = of_device;
        (find("write_amplification").unwrap().read)(&phase)
    };
    assert_eq!(told(300, 200, Some(150)), Some(1.5));
    assert_eq!(told(300, 200, None), None);
    assert_eq!(told(300, 300, Some(4)), None, "nothing was written");
}

#[test]
fn values_are_read_off_a_record() {
    let mut phase = PhaseRecord::new("create", "throughput_mib_per_s");
    phase.elapsed_return_ns = 1_000_000_000;
    phase.bytes = 10 << 20;
    let value = |name: &str, phase: &PhaseRecord| (find(name).unwrap().read)(phase);
    assert_eq!(value("throughput_mib_per_s", &phase), Some(10.0));
    phase.elapsed_durable_ns = Some(2_000_000_000);
    assert_eq!(value("throughput_mib_per_s", &phase), Some(5.0));
    assert_eq!(value("return_throughput_mib_per_s", &phase), Some(10.0));
    assert_eq!(value("elapsed_s", &phase), Some(2.0));
    assert_eq!(value("sample_mean_elapsed_s", &phase), None);
    assert_eq!(value("filesystem_cpu_s", &phase), None);
    assert_eq!(value("files_per_s", &phase), None);
    let sample = |seconds: u64, bytes| Sample {
        subject: String::new(),
        started_ns: None,
        elapsed_return_ns: seconds * 1_000_000_000,
        elapsed_durable_ns: None,
        operations: 1,
        bytes,
        app_user_ns: None,
        app_system_ns: None,
    };
    phase.samples = vec![sample(1, 8 << 20), sample(2, 8 << 20)];
    assert_eq!(value("sample_mean_throughput_mib_per_s", &phase), Some(6.0));
    assert_eq!(value("sample_mean_elapsed_s", &phase), Some(1.5));
    phase.bytes = 0;
    assert_eq!(value("throughput_mib_per_s", &phase), None);
}
