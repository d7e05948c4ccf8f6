package ensemble

import (
	"strconv"
	"strings"
	"testing"
)

// Feature is something that some releases of ZooKeeper lack.
type Feature string

// The features that tests need. A test that needs one calls [Ensemble.Needs], and is
// skipped, with the feature's name, on a release without it.
const (
	Containers Feature = "container nodes"
	Counters   Feature = "counters of bytes and of watches that fired"
	HardQuotas Feature = "hard quotas"
	TLS        Feature = "TLS for clients with keys in PEM files"
	Refusals   Feature = "an answer to a SASL exchange that it refuses: it closes the connection"
)

// first returns, for each branch that got the feature, the first release with it, or the
// oldest release on which it was tested.
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

// Since reports whether a release has something that is new in the given releases. A
// branch is the first two numbers of a version. If first has a release of the version's
// own branch, that one decides. Otherwise, the version must be newer than all of them.
// Since("3.7.2", "3.7.2", "3.8.2") is true, and Since("3.8.1", "3.7.2", "3.8.2") is
// false.
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

// compare returns a negative number if version a is older than b. A missing number counts
// as 0.
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
	n, _ := strconv.Atoi(parts[i]) // status.version has only digits and dots
	return n
}
