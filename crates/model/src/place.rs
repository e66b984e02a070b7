//! Where trials run and whose clock times them: chosen beside the targets, recorded with every trial and
//! never a matter of workloads or filesystems. How a guest is made is left to the crate `guest`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::KernelChoice;

/// Memory of a guest when nothing is said, in bytes.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Least memory of a guest, in bytes: the kernel, the programs and a page cache.
pub const MIN_MEMORY_BYTES: u64 = 256 << 20;

/// Least limit of memory on the host, in bytes: the workload's own program and what it has under way.
pub const MIN_MEMORY_LIMIT_BYTES: u64 = 64 << 20;

/// Why no kernel can be chosen there.
pub const UML_KERNEL_ERROR: &str = "User-Mode Linux is a kernel of its own and boots no other: leave out \
     --kernel and @kernel=, or take --in guest";

/// Greatest shift: an instruction of 1 µs.
pub const MAX_SHIFT: u8 = 10;

/// Where trials run.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// On this machine, under its own kernel.
    #[default]
    Host,
    /// In a virtual machine that is made for each trial.
    Guest,
    /// Under User-Mode Linux, a kernel that runs as a process, started for each trial.
    Uml,
}

impl Where {
    /// The words, in the order of the variants.
    pub const WORDS: [&str; 3] = ["host", "guest", "uml"];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Where::Host => "host",
            Where::Guest => "guest",
            Where::Uml => "uml",
        }
    }

    /// Reads one of [`Where::WORDS`].
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse(text: &str) -> Result<Where, String> {
        match text {
            "host" => Ok(Where::Host),
            "guest" => Ok(Where::Guest),
            "uml" => Ok(Where::Uml),
            _ => Err(format!("`{text}` is no place to run in: write host, guest or uml")),
        }
    }
}

/// Whose time the figures are.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The machine's own.
    #[default]
    Real,
    /// A guest's: the instructions that it has carried out.
    Virtual,
}

impl Clock {
    /// The words, in the order of the variants.
    pub const WORDS: [&str; 2] = ["real", "virtual"];

    /// Reads one of [`Clock::WORDS`].
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse(text: &str) -> Result<Clock, String> {
        match text {
            "real" => Ok(Clock::Real),
            "virtual" => Ok(Clock::Virtual),
            _ => Err(format!("`{text}` is no clock: write real or virtual")),
        }
    }
}

/// Reads a shift of virtual time.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_shift(text: &str) -> Result<u8, String> {
    let shift = text.parse().ok().filter(|shift| *shift <= MAX_SHIFT);
    shift.ok_or_else(|| format!("`{text}` is no shift: write a number from 0 to {MAX_SHIFT}"))
}

/// What carries out a guest's instructions.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// The processor, through the host's kernel.
    Kvm,
    /// QEMU's software emulation.
    Tcg,
}

impl Accelerator {
    /// The words, in the order of the variants.
    pub const WORDS: [&str; 2] = ["kvm", "tcg"];

    /// Its name, as QEMU has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    /// Reads one of [`Accelerator::WORDS`].
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse(text: &str) -> Result<Accelerator, String> {
        match text {
            "kvm" => Ok(Accelerator::Kvm),
            "tcg" => Ok(Accelerator::Tcg),
            _ => Err(format!("`{text}` is no accelerator: write kvm or tcg")),
        }
    }
}

/// What a plan says of the place of its trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Where trials run.
    #[serde(rename = "where")]
    pub kind: Where,
    /// Whose time the figures are.
    pub clock: Clock,
    /// An instruction takes 2 to this power nanoseconds of virtual time.
    #[serde(default)]
    pub shift: u8,
    /// Kernel of the guests whose target names none: a version, a kernel image or a package with one; null
    /// for the newest that is installed.
    pub kernel: Option<KernelChoice>,
    /// What carries out the guest's instructions; null for the fastest that works.
    pub accelerator: Option<Accelerator>,
    /// Memory of the guest besides that of its initial file system, in bytes.
    pub memory_bytes: u64,
    /// Memory that a workload on the host may use, what the kernel caches for it included, in bytes; null for
    /// all that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Whether guests of several trials start from a saved state of a booted one.
    #[serde(default = "usual_saved_state", skip_serializing_if = "is_usual")]
    pub saved_state: bool,
}

fn usual_saved_state() -> bool {
    true
}

/// Left out where it is as usual: every byte that a guest in virtual time is told is time.
fn is_usual(saved_state: &bool) -> bool {
    *saved_state
}

impl Default for Place {
    fn default() -> Place {
        Place {
            kind: Where::default(),
            clock: Clock::default(),
            shift: 0,
            kernel: None,
            accelerator: None,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            memory_limit_bytes: None,
            saved_state: usual_saved_state(),
        }
    }
}

impl Place {
    /// Whether trials run in guests, be they of QEMU or User-Mode Linux.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.kind != Where::Host
    }

    /// Whether guests are User-Mode Linux.
    #[must_use]
    pub fn is_uml(&self) -> bool {
        self.kind == Where::Uml
    }

    /// Whether figures are times of a guest that counts its instructions.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.clock == Clock::Virtual
    }

    /// The shift where it means something.
    #[must_use]
    pub fn virtual_shift(&self) -> Option<u8> {
        self.is_virtual().then_some(self.shift)
    }

    /// What contradicts itself: settings of guests where trials run on the host, too little memory.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let mut errors = Vec::from_iter(self.limit_error());
        if self.is_uml() {
            errors.extend(self.uml_errors());
            return errors;
        }
        if self.is_virtual() && self.accelerator == Some(Accelerator::Kvm) {
            errors.push(
                "kvm counts no instructions: leave out --accelerator, or --clock virtual"
                    .to_owned(),
            );
        }
        if !self.is_virtual() && self.shift != 0 {
            errors.push("a shift is of virtual time: add --clock virtual".to_owned());
        }
        if self.is_guest() {
            errors.extend(self.memory_error());
            return errors;
        }
        if self.is_virtual() {
            errors.push(
                "virtual time is of guests: add --in guest (where = \"guest\" in a plan)"
                    .to_owned(),
            );
        }
        let host = Place::default();
        let given = [
            ("kernel", self.kernel != host.kernel),
            ("accelerator", self.accelerator != host.accelerator),
            ("memory", self.memory_bytes != host.memory_bytes),
            ("saved_state", self.saved_state != host.saved_state),
        ];
        let names = given.into_iter().filter(|(_, is_given)| *is_given);
        let told = names.map(|(name, _)| {
            format!("{name} is of guests: add --in guest (where = \"guest\" in a plan)")
        });
        errors.extend(told);
        errors
    }

    fn limit_error(&self) -> Option<String> {
        let limit = self.memory_limit_bytes?;
        if self.is_guest() {
            let error = "a limit of memory is of the host, a guest has as much as it is given: take \
                         --guest-memory (memory = in a plan)";
            return Some(error.to_owned());
        }
        let needed = crate::units::human_bytes(MIN_MEMORY_LIMIT_BYTES);
        (limit < MIN_MEMORY_LIMIT_BYTES)
            .then(|| format!("a workload needs at least {needed} of memory"))
    }

    fn memory_error(&self) -> Option<String> {
        let needed = crate::units::human_bytes(MIN_MEMORY_BYTES);
        let is_short = self.memory_bytes < MIN_MEMORY_BYTES;
        is_short.then(|| format!("a guest needs at least {needed} of memory"))
    }

    /// What User-Mode Linux cannot do, which is a kernel of its own and no emulator.
    fn uml_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.kernel.is_some() {
            errors.push(UML_KERNEL_ERROR.to_owned());
        }
        if self.accelerator.is_some() {
            errors.push(
                "User-Mode Linux is a process of this machine, which nothing accelerates: leave out \
                 --accelerator, or take --in guest"
                    .to_owned(),
            );
        }
        if self.is_virtual() {
            errors.push(
                "User-Mode Linux counts no instructions, so that it has no virtual time: leave out \
                 --clock virtual, or take --in guest"
                    .to_owned(),
            );
        } else if self.shift != 0 {
            errors.push(
                "a shift is of virtual time, which User-Mode Linux has not: leave it out"
                    .to_owned(),
            );
        }
        errors.extend(self.memory_error());
        errors
    }
}

/// Where a trial ran, by whose clock: figures of different kinds are never compared.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Measured {
    /// Where it ran.
    #[serde(rename = "where")]
    pub place: Where,
    /// Whose time its figures are.
    pub clock: Clock,
    /// What carried out the guest's instructions; null on the host and in User-Mode Linux.
    pub accelerator: Option<Accelerator>,
    /// An instruction takes 2 to this power nanoseconds of virtual time; null in real time.
    #[serde(default)]
    pub shift: Option<u8>,
}

/// `on the host`, `in a guest (tcg)`, `in virtual time`.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place, self.accelerator) {
            _ if self.clock == Clock::Virtual => {
                let instruction_ns = 1_u64 << self.shift.unwrap_or(0).min(MAX_SHIFT);
                write!(f, "in virtual time ({instruction_ns} ns an instruction)")
            }
            (Where::Host, _) => f.write_str("on the host"),
            (Where::Guest, Some(accelerator)) => write!(f, "in a guest ({})", accelerator.word()),
            (Where::Guest, None) => f.write_str("in a guest"),
            (Where::Uml, _) => f.write_str("in User-Mode Linux"),
        }
    }
}

/// Why figures of two kinds are not put beside each other; `None` where they are of one kind.
#[must_use]
pub fn refusal(a: (&str, Measured), b: (&str, Measured)) -> Option<String> {
    let ((a_name, a), (b_name, b)) = (a, b);
    (a != b).then(|| {
        format!(
            "{a_name} was measured {a}, {b_name} {b}: such figures are not comparable, measure both in \
             the same place"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for word in Where::WORDS {
            let place = Where::parse(word).unwrap();
            assert_eq!(serde_json::to_string(&place).unwrap(), format!("\"{word}\""));
            assert_eq!(place.word(), word);
        }
        for word in Accelerator::WORDS {
            assert_eq!(Accelerator::parse(word).unwrap().word(), word);
        }
        for word in Clock::WORDS {
            let clock = Clock::parse(word).unwrap();
            assert_eq!(serde_json::to_string(&clock).unwrap(), format!("\"{word}\""));
        }
        assert!(Clock::parse("fast").is_err() && parse_shift("11").is_err());
        assert_eq!(parse_shift("3"), Ok(3));
        assert!(Where::parse("uml2").is_err() && Accelerator::parse("").is_err());
    }

    #[test]
    fn settings_of_guests_need_guests() {
        assert!(Place::default().errors().is_empty());
        let place = Place { kernel: Some(KernelChoice::parse("/k").unwrap()), ..Place::default() };
        assert!(place.errors()[0].contains("--in guest"));
        assert!(Place { kind: Where::Guest, ..place.clone() }.errors().is_empty());
        let booted = Place { saved_state: false, ..Place::default() };
        assert!(booted.errors()[0].contains("saved_state is of guests"));
        let small = Place { kind: Where::Guest, memory_bytes: 1, ..place };
        assert!(small.errors()[0].contains("memory"));
    }

    #[test]
    fn a_limit_of_memory_is_of_the_host() {
        let limited =
            Place { memory_limit_bytes: Some(MIN_MEMORY_LIMIT_BYTES), ..Place::default() };
        assert!(limited.errors().is_empty());
        for kind in [Where::Guest, Where::Uml] {
            let error = Place { kind, ..limited.clone() }.errors().join("; ");
            assert!(error.contains("--guest-memory"), "{error}");
        }
        let little = Place { memory_limit_bytes: Some(1), ..limited };
        assert!(little.errors()[0].contains("at least 64.0 MiB"));
    }

    #[test]
    fn user_mode_linux_chooses_nothing() {
        let plain = Place { kind: Where::Uml, ..Place::default() };
        assert!(plain.errors().is_empty() && plain.is_guest());
        let kernel = Some(KernelChoice::parse("6.12").unwrap());
        let all = Place {
            kernel,
            accelerator: Some(Accelerator::Tcg),
            clock: Clock::Virtual,
            memory_bytes: 1,
            ..plain
        };
        let told = all.errors().join("\n");
        for words in ["boots no other", "nothing accelerates", "counts no instructions", "memory"] {
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn virtual_time_needs_guests_that_are_emulated() {
        let place = Place { clock: Clock::Virtual, shift: 2, ..Place::default() };
        assert!(place.errors()[0].contains("--in guest"));
        let guest = Place { kind: Where::Guest, ..place.clone() };
        assert!(guest.errors().is_empty());
        let kvm = Place { accelerator: Some(Accelerator::Kvm), ..guest.clone() };
        assert!(kvm.errors()[0].contains("counts no instructions"));
        assert!(Place { clock: Clock::Real, ..guest }.errors()[0].contains("--clock virtual"));
    }

    #[test]
    fn kinds_are_told_apart() {
        let host = Measured::default();
        let guest = |accelerator| Measured { place: Where::Guest, accelerator, ..host };
        let tcg = guest(Some(Accelerator::Tcg));
        assert_eq!(refusal(("a", tcg), ("b", tcg)), None);
        let uml = Measured { place: Where::Uml, ..host };
        assert_eq!(uml.to_string(), "in User-Mode Linux");
        for other in [host, guest(Some(Accelerator::Kvm)), uml] {
            let told = refusal(("a", other), ("b", tcg)).unwrap();
            assert!(told.contains("b in a guest (tcg)"), "{told}");
        }
        let virtual_time = Measured { clock: Clock::Virtual, shift: Some(1), ..tcg };
        assert!(refusal(("a", virtual_time), ("b", tcg)).unwrap().contains("2 ns an instruction"));
        assert!(
            refusal(("a", virtual_time), ("b", Measured { shift: Some(0), ..virtual_time }))
                .is_some()
        );
        let none: Measured = serde_json::from_str(r#"{"where":"host","clock":"real"}"#).unwrap();
        assert_eq!(none, host);
    }
}
