//go:build unix

package main

import (
	"os/exec"
	"runtime/debug"
	"testing"
)

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "4f1c0a5"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", []debug.BuildSetting{commit}, "v1.2.3"},
		{"(devel)", []debug.BuildSetting{commit}, "(devel) 4f1c0a5"},
		{"(devel)", []debug.BuildSetting{commit, changed}, "(devel) 4f1c0a5 and what was not committed"},
		{"", nil, "(devel)"},
	} {
		if got := version(&debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings}, true); got != c.want {
			t.Errorf("%q with %v: %s, want %s", c.version, c.settings, got, c.want)
		}
	}
	if got := version(nil, false); got != "unknown" {
		t.Errorf("of nothing: %s, want unknown", got)
	}
}

// The flag prints what the command prints, on standard output.
func TestVersionFlag(t *testing.T) {
	var said []string
	for _, arg := range []string{"version", "--version"} {
		out, err := exec.Command(program, arg).Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("zkgrant %s prints %q: %v", arg, out, err)
		}
		said = append(said, string(out))
	}
	if said[0] != said[1] {
		t.Errorf("version prints %s--version %s", said[0], said[1])
	}
}
