# Two commands on a fresh machine: `make demo` and `make test`.
# Every target only calls cargo, scripts/bootstrap or bench/run.

# What the demo measures: under four minutes on loop images.
DEMO ?= --trials 3 --size 3GiB --workload compilebench:trees=2,runs=6

.PHONY: demo demo-disk test bench lint install

demo:
	scripts/bootstrap demo
	cargo build --release
	scripts/bootstrap demo --run $(DEMO)

# The same work on the disk of a desktop of 2007, and pictures of what that disk did: a quarter of an hour.
demo-disk:
	scripts/bootstrap demo
	cargo build --release
	scripts/bootstrap demo --disk

test:
	scripts/bootstrap test
	scripts/bootstrap test --run

bench:
	scripts/bootstrap bench
	cargo build --release --workspace --bins --examples
	bench/run

lint:
	scripts/bootstrap build
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

install:
	scripts/bootstrap build
	cargo install --locked --path crates/fsdyno
