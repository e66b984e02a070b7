//! Where things stand in the kernel's ring buffer: parsed from the texts `events/header_page` and
//! `events/block/NAME/format`, which every kernel writes of itself. Pure functions.

use fsdyno_model::trace::Action;

/// The form of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// Where its time stands (8 bytes).
    pub timestamp_offset: usize,
    /// Where the length of its data stands.
    pub commit_offset: usize,
    /// Bytes of that length: those of a C `long` of the kernel.
    pub commit_bytes: usize,
    /// Where its data begin.
    pub data_offset: usize,
    /// Bytes of data that it can hold.
    pub data_bytes: usize,
}

impl PageLayout {
    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.data_offset + self.data_bytes
    }
}

/// The form of one kind of block event. Offsets count from the event's first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLayout {
    /// The number by which the event names its kind.
    pub id: u16,
    /// What it says.
    pub action: Action,
    /// Bytes up to the end of the last field that is read.
    pub needed_bytes: usize,
    /// Who ran (4 bytes).
    pub pid_offset: usize,
    /// The disk (4 bytes).
    pub device_offset: usize,
    /// First sector (8 bytes).
    pub sector_offset: usize,
    /// Number of sectors (4 bytes).
    pub sectors_offset: usize,
    /// Letters that say what kind of request it is.
    pub rwbs_offset: usize,
    /// How many there may be: 8 before Linux 6.18, 10 since.
    pub rwbs_bytes: usize,
    /// Name of who ran (16 bytes); completions have none.
    pub comm_offset: Option<usize>,
    /// Error number (4 bytes); only completions have one.
    pub error_offset: Option<usize>,
}

/// The largest page that is believed.
const MAX_PAGE_BYTES: usize = 1 << 20;
/// The largest event that is believed.
const MAX_EVENT_BYTES: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
}

/// Parses `events/header_page`.
///
/// # Errors
/// What is missing or is no such thing as is known.
pub fn parse_page(text: &str) -> Result<PageLayout, String> {
    let field = |name| field(text, name, MAX_PAGE_BYTES);
    let timestamp = of_size(field("timestamp")?, &[8], "timestamp")?;
    let commit = of_size(field("commit")?, &[4, 8], "commit")?;
    let data = field("data")?;
    let layout = PageLayout {
        timestamp_offset: timestamp.offset,
        commit_offset: commit.offset,
        commit_bytes: commit.size,
        data_offset: data.offset,
        data_bytes: data.size,
    };
    let head_end = (timestamp.offset + 8).max(commit.offset + commit.size);
    if data.size == 0 || data.offset < head_end {
        return Err("the field data has no room".to_owned());
    }
    Ok(layout)
}

/// Parses `events/block/NAME/format` of an event that says `action`.
///
/// # Errors
/// What is missing or is no such thing as is known.
pub fn parse_event(text: &str, action: Action) -> Result<EventLayout, String> {
    let field = |name| field(text, name, MAX_EVENT_BYTES);
    let sized = |name, size| field(name).and_then(|found| of_size(found, &[size], name));
    let id = text.lines().find_map(|line| line.strip_prefix("ID:"));
    let id = id.and_then(|id| id.trim().parse().ok()).ok_or("there is no ID")?;
    if sized("common_type", 2)?.offset != 0 {
        return Err("the field common_type is not the first".to_owned());
    }
    let pid = sized("common_pid", 4)?;
    let device = sized("dev", 4)?;
    let sector = sized("sector", 8)?;
    let sectors = sized("nr_sector", 4)?;
    let rwbs = field("rwbs")?;
    // A completion says in its place who was interrupted, of whom no name is known.
    let comm = sized("comm", 16).ok();
    let error = sized("error", 4).or_else(|_| sized("errors", 4)).ok();
    let fields = [Some(pid), Some(device), Some(sector), Some(sectors), Some(rwbs), comm, error];
    let ends = fields.iter().flatten().map(|field| field.offset + field.size);
    Ok(EventLayout {
        id,
        action,
        needed_bytes: ends.max().unwrap_or(0),
        pid_offset: pid.offset,
        device_offset: device.offset,
        sector_offset: sector.offset,
        sectors_offset: sectors.offset,
        rwbs_offset: rwbs.offset,
        rwbs_bytes: rwbs.size,
        comm_offset: comm.map(|field| field.offset),
        error_offset: error.map(|field| field.offset),
    })
}

fn of_size(field: Field, sizes: &[usize], name: &str) -> Result<Field, String> {
    if sizes.contains(&field.size) {
        return Ok(field);
    }
    Err(format!("the field {name} has {} bytes", field.size))
}

/// The field `name`: a line such as `field:char rwbs[10]; offset:28; size:10; signed:0;`.
fn field(text: &str, name: &str, limit_bytes: usize) -> Result<Field, String> {
    let found = text.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?.split('[').next()?.split_whitespace().next_back()?;
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse().ok();
        let field = Field { offset: number("offset:")?, size: number("size:")? };
        (declared == name).then_some(field)
    });
    let field = found.ok_or_else(|| format!("there is no field {name}"))?;
    let end = field.offset.checked_add(field.size);
    if end.is_none_or(|end| end > limit_bytes) {
        return Err(format!("the field {name} lies beyond {limit_bytes} bytes"));
    }
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";
    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
";

    #[test]
    fn a_page_is_what_the_kernel_says() {
        let layout = parse_page(PAGE).unwrap();
        assert_eq!((layout.commit_offset, layout.commit_bytes), (8, 8));
        assert_eq!((layout.data_offset, layout.data_bytes, layout.page_bytes()), (16, 4080, 4096));
        let small = PAGE.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4");
        assert_eq!(parse_page(&small).unwrap().commit_bytes, 4);
        let large = PAGE.replace("size:4080", "size:65520");
        assert_eq!(parse_page(&large).unwrap().page_bytes(), 65536);
    }

    #[test]
    fn an_event_has_its_fields_where_the_kernel_says() {
        let text = format!(
            "name: block_rq_complete\nID: 2107\nformat:\n{COMMON}\
             \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
             \tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->dev\n"
        );
        let layout = parse_event(&text, Action::Complete).unwrap();
        assert_eq!((layout.id, layout.action, layout.needed_bytes), (2107, Action::Complete, 44));
        assert_eq!((layout.rwbs_offset, layout.rwbs_bytes), (34, 10));
        assert_eq!((layout.comm_offset, layout.error_offset), (None, Some(28)));

        let text = format!(
            "ID: 1\n{COMMON}\tfield:char rwbs[8];\toffset:28;\tsize:8;\tsigned:0;\n\
             \tfield:char comm[16];\toffset:36;\tsize:16;\tsigned:0;\n"
        );
        let layout = parse_event(&text, Action::Queue).unwrap();
        assert_eq!((layout.comm_offset, layout.rwbs_bytes), (Some(36), 8));
        assert_eq!((layout.needed_bytes, layout.error_offset), (52, None));
    }

    #[test]
    fn what_is_missing_or_strange_is_named() {
        let cases: &[(String, &str)] = &[
            (String::new(), "timestamp"),
            (PAGE.replace("commit", "length"), "commit"),
            (PAGE.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:3"), "commit"),
            (PAGE.replace("offset:16;\tsize:4080", "offset:4;\tsize:4080"), "data"),
            (PAGE.replace("size:4080", "size:0"), "data"),
            (PAGE.replace("size:4080", "size:18446744073709551615"), "data"),
            (PAGE.replace("size:4080", "size:99999999"), "data"),
        ];
        for (text, named) in cases {
            let error = parse_page(text).unwrap_err();
            assert!(error.contains(named), "{error} does not name {named}");
        }
        let event = format!("ID: 7\n{COMMON}");
        for (text, named) in [
            (event.clone(), "rwbs"),
            (event.replace("ID", "Id"), "ID"),
            (event.replace("dev;\toffset:8;\tsize:4", "dev;\toffset:8;\tsize:8"), "dev"),
            (event.replace("common_type;\toffset:0", "common_type;\toffset:4"), "common_type"),
        ] {
            let error = parse_event(&text, Action::Issue).unwrap_err();
            assert!(error.contains(named), "{error} does not name {named}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = (parse_page(&text), parse_event(&text, Action::Queue));
        }
    }
}
