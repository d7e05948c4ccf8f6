package ensemble

import (
	"strconv"
	"strings"
	"testing"
)

// Feature is what some releases of ZooKeeper lack.
type Feature string

// The features that tests need. A test that needs one calls [Ensemble.Needs], and is
// skipped by name on a release without it.
const (
	Containers Feature = "container nodes"
	Counters   Feature = "counters of bytes and of watches that fired"
	HardQuotas Feature = "hard quotas"
	TLS        Feature = "TLS for clients with keys in PEM files"
	Refusals   Feature = "an answer to a SASL exchange that it refuses: it closes the connection"
)

// first is the list of what releases lack: of each branch that got the feature the first
// release with it, or the first that was run.
func (f Feature) first() []string {
	return map[Feature][]string{
		Containers: {"3.5.3"}, Counters: {"3.6.0"}, HardQuotas: {"3.7.0"}, TLS: {"3.5.10"}, Refusals: {"3.5.10"},
	}[f]
}

// Needs skips the test if the servers' release lacks one of the features.
func (e *Ensemble) Needs(tb testing.TB, needed ...Feature) {
	tb.Helper()
	for _, f := range needed {
		first := f.first()
		if first == nil {
			tb.Fatalf("no such feature: %s", f)
		}
		if !Since(e.version, first...) {
			tb.Skipf("ZooKeeper %s lacks %s; seen from %s on", e.version, f, strings.Join(first, ", "))
		}
	}
}

// Since reports whether a release has what is new in others. A branch is what the first
// two numbers name. If first names a release of the version's own branch, that one
// decides. Otherwise, the version has it if it is newer than all of them. Since("3.7.2",
// "3.7.2", "3.8.2") is true, and Since("3.8.1", "3.7.2", "3.8.2") is not.
func Since(version string, first ...string) bool {
	newer := true
	for _, f := range first {
		if branch(version) == branch(f) {
			return compare(version, f) >= 0
		}
		newer = newer && compare(version, f) >= 0
	}
	return newer
}

func branch(version string) string {
	numbers := strings.SplitN(version, ".", 3)
	return strings.Join(numbers[:min(2, len(numbers))], ".")
}

// compare is negative if version a is older than b. A missing number is 0.
func compare(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if difference := number(as, i) - number(bs, i); difference != 0 {
			return difference
		}
	}
	return 0
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i]) // status.version has digits only
	return n
}
