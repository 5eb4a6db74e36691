# `make run` shows the whole loop on this machine, `make test` checks everything, `make lab` runs every experiment of the lab.
# Each does its own set-up on a fresh Debian 12 with a Rust toolchain. `make install` installs the program that `make build` built below PREFIX,
# `make uninstall` removes it; `make deb` makes a Debian package, and `make package-test` tries it in fresh roots of Debian 12 and 13.
# `make lib` builds libsurety-stream for C programs, and `make install-lib` installs it below PREFIX.

CARGO ?= cargo

.PHONY: run test bench setup build install uninstall deb package-test lib install-lib lab

run: build
	./target/release/surety guarantee examples/video-player.toml --html target/video-player.html

build: setup
	$(CARGO) build --release --locked --package surety

# Builds nothing: what root installs is what the user built.
install:
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' ZSHDIR='$(ZSHDIR)' tools/install

uninstall:
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' ZSHDIR='$(ZSHDIR)' tools/install --remove

deb:
	CARGO='$(CARGO)' tools/deb

package-test: deb
	tools/package-test

lib: setup
	$(CARGO) rustc --release --locked --package surety-capi --lib --crate-type cdylib,staticlib

install-lib:
	PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' tools/install-lib

test: setup
	tools/test

bench: setup
	$(CARGO) bench --locked --workspace

# Some two and a half hours on two CPUs.
lab: build
	for kernel in 6.1 6.1-rt 6.12 6.12-rt; do ./target/release/surety lab fetch $$kernel || exit 1; done
	./target/release/surety reproduce rt-vs-vanilla --on lab:6.1 --on lab:6.1-rt --on lab:6.12 --on lab:6.12-rt --seeds 10
	./target/release/surety reproduce spinner --on lab:6.1 --on lab:6.12 --json > target/spinner.json
	cp target/spinner.json crates/sim/tests/golden-lab/spinner.json
	for kernel in 6.1-cloud 6.12-cloud 7-cloud; do \
	  ./target/release/surety lab fetch $$kernel && \
	  ./target/release/surety validate --on lab:$$kernel --for 5s --records crates/sim/tests/golden-lab/validation || exit 1; \
	done
	for experiment in irq-disk irq-copy network-thread player-network irq-loss; do \
	  ./target/release/surety reproduce $$experiment --on lab:6.12-rt --records crates/sim/tests/golden-lab/$$experiment.json || exit 1; \
	done
	./target/release/surety reproduce abiss-be --on lab:6.12-cloud --records crates/sim/tests/golden-lab/abiss-be.json
	SURETY_VALIDATION=write $(CARGO) test --locked --package surety --test it validation

setup:
	@tools/setup
