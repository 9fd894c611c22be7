# The front door over CMake. Each target alone goes from a bare checkout to done on Debian 12, as root.
#
#   make                    build everything into build/dev
#   make demo [KEEP=1]      build, boot two VMs, show them, take everything down (KEEP=1: leave it up)
#   make check [STAGE="quick netns"] [LOAD=8]  every test there is, in stages; what CI runs. LOAD: beside busy loops
#   make check-host         the part of it that runs in a systemd host
#   make lint               formatter and linters
#   make bench [BENCH=name] one benchmark or all, on a release build
#   make property [STEPS=5000] [SEED=n] random steps and faults against the whole set, see docs/property.md
#   make proto-baseline     accept additions to protos/ as the new baseline
#   make install            a release build into this host, or with DESTDIR=DIR into a tree for a package
#   make clean              remove build/
MAKEFLAGS += --no-print-directory
PRESET ?= dev

all: build-$(PRESET)

build-%: packages-build
	@[ -e build/$*/build.ninja ] || cmake --preset $* >/dev/null
	@cmake --build --preset $*

packages-build:
	@deploy/install-dependencies build
packages-all:
	@deploy/install-dependencies

demo: packages-all build-dev
	@KEEP=$(KEEP) deploy/demo build/dev

check: packages-all
	@LOAD=$(LOAD) tests/check $(STAGE)

check-host: packages-all build-dev
	@tests/host/check-host build/dev

lint: packages-all build-dev
	@tests/lint build/dev

property: packages-all build-dev
	@PROPERTY_STEPS=$(STEPS) PROPERTY_SEED=$(SEED) build/dev/bin/property_test build/dev/bin

bench: packages-all build-release
	@tests/tools/build build/tools
	@tests/bench/run build/release build/tools $(BENCH)

proto-baseline: build-dev
	@cmake --build --preset dev --target proto-baseline

install: build-release
	@cmake --install build/release

clean:
	@rm -rf build

.PHONY: all packages-build packages-all demo check check-host lint property bench proto-baseline install clean
