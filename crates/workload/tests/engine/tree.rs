//! What exists below a directory, and what the engine believes to exist there, in one form.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fsdyno_workload::engine::definition::EntryKind;
use fsdyno_workload::engine::run::world::World;
use fsdyno_workload::payload::PayloadSource;

/// One entry: kind, size, number of names, and a hash of the contents of a file or the target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: char,
    pub size: u64,
    pub links: u64,
    pub hash: u64,
}

/// Entries by path.
pub type Tree = BTreeMap<String, Node>;

pub fn hash(bytes: &[u8]) -> u64 {
    fsdyno_workload::payload::name_hash(bytes)
}

/// The tree below `root`, without its own directories where `directories` does not name them.
pub fn found(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let facts = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let node = if facts.is_dir() {
                pending.push(path);
                Node { kind: 'd', size: 0, links: 1, hash: 0 }
            } else if facts.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                let hash = hash(target.to_str().unwrap().as_bytes());
                Node { kind: 'l', size: 0, links: 1, hash }
            } else {
                let bytes = std::fs::read(&path).unwrap();
                Node { kind: 'f', size: facts.len(), links: facts.nlink(), hash: hash(&bytes) }
            };
            tree.insert(name, node);
        }
    }
    tree
}

/// Fails where `tree` is not what the engine believes; contents that it does not claim to know are not
/// compared. Gives how many files were compared byte by byte.
pub fn assert_believed(world: &World<'_>, tree: &Tree) -> usize {
    let source = PayloadSource::new(world.definition.payload, world.seed);
    let mut left: HashMap<&str, &Node> =
        tree.iter().map(|(path, node)| (path.as_str(), node)).collect();
    // Directories that only hold entries are not believed in one by one.
    for set in &world.sets {
        let name = &set.layout.name;
        assert!(left.remove(name.as_str()).is_some(), "{name} was not made");
        for directory in set.layout.directories() {
            let path = format!("{name}/{directory}");
            assert!(left.remove(path.as_str()).is_some(), "{path} was not made");
        }
    }
    let mut compared = 0;
    for believed in world.believed() {
        let path = believed.path.as_str();
        let node = left.remove(path).unwrap_or_else(|| panic!("{path} does not exist"));
        let kind = match believed.kind {
            EntryKind::File => 'f',
            EntryKind::Directory => 'd',
            EntryKind::Symlink => 'l',
        };
        assert_eq!((node.kind, node.size), (kind, believed.size_bytes), "{path}");
        assert_eq!(node.links, believed.links, "links of {path}");
        if let Some(key) = believed.content_key {
            let mut bytes = vec![0; node.size as usize];
            source.fill(key, 0, &mut bytes);
            assert_eq!(node.hash, hash(&bytes), "contents of {path}");
            compared += 1;
        }
    }
    assert!(left.is_empty(), "exist without being known: {left:?}");
    compared
}
