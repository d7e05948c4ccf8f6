//go:build !race

package recipes

import (
	"os"
	"strings"
	"testing"
)

func TestDev(t *testing.T) {
	want := os.Getenv("DEV")
	for _, cfg := range append(directories(), pairs()...) {
		if !strings.Contains(cfg.name, want) {
			continue
		}
		for _, whole := range []bool{false, true} {
			if whole && os.Getenv("WHOLE") == "" {
				continue
			}
			cfg.whole = whole
			f := explore(Machine.Step, cfg, most)
			t.Logf("%d contenders, whole %v, %-32s %v", cfg.clients, whole, cfg.name, f)
			if f.violation != "" {
				t.Fatalf("%s: %s\n%s", cfg.name, f.violation, strings.Join(f.trace, "\n"))
			}
		}
	}
}
