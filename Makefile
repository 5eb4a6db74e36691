# Two commands: `make run` shows the whole loop on this machine, `make test` checks everything.
# Each does its own set-up on a fresh Debian 12 with a Rust toolchain.

CARGO ?= cargo

.PHONY: run test bench setup build

run: build
	./target/release/surety guarantee examples/video-player.toml --html target/video-player.html

build: setup
	$(CARGO) build --release --locked --package surety

test: setup
	tools/test

bench: setup
	$(CARGO) bench --locked --workspace

setup:
	@tools/setup
