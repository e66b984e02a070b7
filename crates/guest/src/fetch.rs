//! A kernel's package, downloaded by the distribution's package manager without root and without installing
//! it: apt with lists and a cache of its own. Other package managers are not called: a package that one of
//! them downloaded can be named as a file.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsdyno_sys::child::{self, ChildError, Ended, Keep, Limits};

use crate::kernel::{is_of_version, version_key};
use crate::{Result, package};

/// How packages of kernels are called before their release, and how releases of the plain flavour end.
const START: &str = "linux-image-";
const FLAVOUR: &str = "-amd64";
/// Flavours that are another kernel than the plain one.
const OTHER_FLAVOURS: [&str; 2] = ["-cloud-", "-rt-"];
/// The keys that Debian signs its suites with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// How long lists and a package of 100 MB may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// What is kept of what apt prints: hundreds of names of packages.
const KEPT_BYTES: usize = 256 << 10;

/// What to fetch.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The newest of this version; of all where there is none.
    pub version: Option<&'a str>,
    /// The suite to look in, such as `bookworm-backports`; those of this machine where there is none.
    pub suite: Option<&'a str>,
}

/// Downloads the newest package that fits and unpacks it in `cache`; gives its name and its root.
///
/// # Errors
/// There is no apt; the lists or the package cannot be had; none fits.
pub fn fetch(
    wanted: &Wanted<'_>,
    cache: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(String, PathBuf)> {
    if child::find_program("apt-get").is_none() {
        return Err("there is no apt-get here: download the kernel's package with the package manager \
                    of this distribution (dnf download kernel-core kernel-modules-core) and name its file"
            .to_owned());
    }
    let apt = Apt::prepare(cache, wanted.suite)?;
    say("reading the lists of packages");
    apt.run("apt-get", &["-q", "update"])?;
    let pattern = format!("^{START}[0-9].*{FLAVOUR}$");
    let found = apt.run("apt-cache", &["search", "--names-only", &pattern])?;
    let name = newest(&found.stdout.text, wanted.version).ok_or_else(|| {
        let version = wanted.version.map_or(String::new(), |version| format!(" {version}"));
        let suite = wanted.suite.unwrap_or("the suites of this machine");
        format!(
            "there is no kernel{version} in {suite}: --suite names another, as bookworm-backports"
        )
    })?;
    say(&format!("downloading {name}"));
    apt.run("apt-get", &["-q", "download", name])?;
    let file = apt.downloaded(name)?;
    say("unpacking it");
    let root = package::unpack(&file, cache)?;
    // Unpacked it takes as much room again.
    fs::remove_file(&file).map_err(|error| format!("remove {}: {error}", file.display()))?;
    Ok((name.to_owned(), root))
}

/// The package of the newest release that fits, among lines of `NAME - SUMMARY`.
fn newest<'a>(listed: &'a str, version: Option<&str>) -> Option<&'a str> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let releases = names.filter_map(|name| Some((name, name.strip_prefix(START)?)));
    let plain = releases.filter(|(_, release)| {
        release.ends_with(FLAVOUR) && !OTHER_FLAVOURS.iter().any(|other| release.contains(other))
    });
    let fitting =
        plain.filter(|(_, release)| version.is_none_or(|version| is_of_version(release, version)));
    fitting.max_by_key(|(_, release)| version_key(release)).map(|(name, _)| name)
}

/// apt with directories of its own below the cache.
struct Apt {
    directory: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn prepare(cache: &Path, suite: Option<&str>) -> Result<Apt> {
        // Lists of one suite are none of another.
        let directory = cache.join("apt").join(suite.unwrap_or("own").replace('/', "-"));
        for part in ["lists/partial", "cache/archives/partial"] {
            let path = directory.join(part);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(|error| format!("make {}: {error}", path.display()))?;
        }
        let shown = |name: &str| directory.join(name).display().to_string();
        let mut options = vec![
            format!("Dir::State::lists={}", shown("lists")),
            format!("Dir::Cache={}", shown("cache")),
            // What is installed here is no package to be had.
            "Dir::State::status=/dev/null".to_owned(),
            // Without root there is no other user to become.
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ];
        if let Some(suite) = suite {
            let apt = Apt { directory: directory.clone(), options: options.clone() };
            let text = format!("deb {}{} {suite} main\n", signed_by(), apt.mirror()?);
            let list = directory.join("sources.list");
            fs::write(&list, text).map_err(|error| format!("write {}: {error}", list.display()))?;
            options.push(format!("Dir::Etc::sourcelist={}", list.display()));
            options.push("Dir::Etc::sourceparts=-".to_owned());
        }
        Ok(Apt { directory, options })
    }

    /// Where this machine gets the packages of its own release from. apt tells only what it has lists of: it
    /// reads them anew where there are none.
    fn mirror(&self) -> Result<String> {
        let machine = Apt { directory: self.directory.clone(), options: Vec::new() };
        machine.listed_mirror().or_else(|_| {
            self.run("apt-get", &["-q", "update"])?;
            self.listed_mirror()
        })
    }

    fn listed_mirror(&self) -> Result<String> {
        let known = self.run(
            "apt-get",
            &["indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
        )?;
        let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let mut lines = os_release.lines();
        let codename = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = codename.unwrap_or_default().trim_matches('"');
        let pairs = known.stdout.text.lines().filter_map(|line| line.split_once(' '));
        let mut own = pairs.filter(|(_, release)| *release == codename);
        own.next().map(|(mirror, _)| mirror.to_owned()).ok_or_else(|| {
            format!("apt knows no source of `{codename}`: download the kernel's package by hand")
        })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Ended> {
        let limits = Limits {
            stdout: Keep::Start(KEPT_BYTES),
            stderr: Keep::End(KEPT_BYTES),
            duration: Some(PATIENCE),
        };
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command.args(arguments).current_dir(&self.directory).env("LC_ALL", "C");
        let shown = format!("{program} {}", arguments.join(" "));
        let ended = child::run(&mut command, &limits).map_err(|error| match error {
            ChildError::NotStarted(error) | ChildError::NotWaited(error) => {
                format!("{shown}: {error}")
            }
            ChildError::TimedOut { .. } | ChildError::Stuck { .. } => {
                format!("{shown}: not done within {} min", PATIENCE.as_secs() / 60)
            }
            ChildError::Interrupted => format!("{shown}: interrupted"),
        })?;
        if ended.status.success() {
            return Ok(ended);
        }
        let words = child::last_words(&ended.stdout.text, &ended.stderr.text);
        Err(format!("{shown}: {words}"))
    }

    /// The file that was downloaded.
    fn downloaded(&self, name: &str) -> Result<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let start = format!("{name}_");
        let is_it = |path: &PathBuf| {
            let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            own.starts_with(&start) && own.ends_with(".deb")
        };
        let mut found = entries.map(|entry| entry.path()).filter(is_it);
        found.next().ok_or_else(|| format!("apt-get download {name} left no file"))
    }
}

/// By which keys a suite of Debian is believed, for a list of sources.
fn signed_by() -> String {
    if Path::new(KEYS).is_file() { format!("[signed-by={KEYS}] ") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_kernel_that_fits_is_taken() {
        let listed = "\
linux-image-6.12.9+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)
linux-image-6.12.43+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)
linux-image-6.12.95+deb12-cloud-amd64 - Linux 6.12 for x86-64 cloud (signed)
linux-image-6.12.95+deb12-rt-amd64 - Linux 6.12 for 64-bit PCs (signed), PREEMPT_RT
linux-image-6.1.0-9-amd64 - Linux 6.1 for 64-bit PCs (signed)
linux-image-6.1.0-10-amd64 - Linux 6.1 for 64-bit PCs (signed)
linux-image-6.1.0-10-amd64-dbg - Debug symbols
";
        for (version, name) in [
            (None, Some("linux-image-6.12.43+deb12-amd64")),
            (Some("6.12"), Some("linux-image-6.12.43+deb12-amd64")),
            (Some("6.12.9"), Some("linux-image-6.12.9+deb12-amd64")),
            (Some("6.1"), Some("linux-image-6.1.0-10-amd64")),
            (Some("5.10"), None),
        ] {
            assert_eq!(newest(listed, version), name, "{version:?}");
        }
        assert_eq!(newest("", None), None);
    }
}
