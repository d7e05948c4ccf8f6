package ensemble

import "testing"

func TestSinceKnowsBranches(t *testing.T) {
	for _, c := range []struct {
		version string
		first   []string
		want    bool
	}{
		{"3.7.1", []string{"3.7.2", "3.8.2"}, false},
		{"3.7.2", []string{"3.7.2", "3.8.2"}, true},
		{"3.8.1", []string{"3.7.2", "3.8.2"}, false},
		{"3.8.10", []string{"3.7.2", "3.8.2"}, true},
		{"3.6.4", []string{"3.7.2", "3.8.2"}, false},
		{"3.9.0", []string{"3.7.2", "3.8.2"}, true},
		{"3.10.0", []string{"3.9.3"}, true},
		{"3.4.14", []string{"3.5.3"}, false},
		{"3.5.10", []string{"3.5.3"}, true},
		{"3.8.0", nil, true},
	} {
		if got := Since(c.version, c.first...); got != c.want {
			t.Errorf("Since(%s, %v) = %v, want %v", c.version, c.first, got, c.want)
		}
	}
}

func TestEveryFeatureHasItsReleases(t *testing.T) {
	for _, f := range []Feature{Containers, Counters, HardQuotas, TLS, Refusals} {
		first := f.first()
		if len(first) == 0 || Since("3.4.0", first...) || !Since("4.0.0", first...) {
			t.Errorf("%s is new in %v, want releases between 3.4.0 and 4.0.0", f, first)
		}
	}
}
