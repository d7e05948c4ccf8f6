package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Each global flag has an environment variable. The command line takes precedence.
func TestEachGlobalFlagIsAVariable(t *testing.T) {
	values := map[string][2]string{"bool": {"true", "false"}, "duration": {"7s", "8s"}, "string": {"text", "other"}}
	defaults := map[string]string{}
	newRoot(&settings{}).PersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, ok := values[f.Value.Type()]
		if !ok {
			t.Fatalf("--%s is a %s, which this test knows no value of", f.Name, f.Value.Type())
		}
		name := "ZKGRANT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		defaults[name] = f.DefValue
		t.Setenv(name, value[0])
		for _, onTheLine := range []bool{false, true} {
			flags, want := newRoot(&settings{}).PersistentFlags(), value[0]
			if onTheLine {
				want = value[1]
				eventstest.Must(t, flags.Set(f.Name, want))
			}
			eventstest.Must(t, fromEnvironment(flags))
			eventstest.Equal(t, flags.Lookup(f.Name).Value.String(), want,
				"--%s, on the command line %t", f.Name, onTheLine)
		}
	})
	for _, empty := range []bool{true, false} {
		for name, value := range defaults {
			if empty {
				value = ""
			}
			t.Setenv(name, value)
		}
		flags := newRoot(&settings{}).PersistentFlags()
		eventstest.Must(t, fromEnvironment(flags))
		flags.Visit(func(f *pflag.Flag) {
			t.Errorf("a variable that is empty (%t), or has the default, sets --%s to %q, want it left alone", empty, f.Name, f.Value)
		})
	}
}

// The exit codes are the same on the page and in --help.
func TestExitCodesOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	eventstest.Must(t, err)
	_, part, _ := strings.Cut(string(page), "### Exit codes\n")
	part, _, _ = strings.Cut(part, "\n#")
	var rows [][2]string
	row := regexp.MustCompile(`(?m)^\| (\d.*?) +\| (.*) \|$`)
	for _, m := range row.FindAllStringSubmatch(strings.ReplaceAll(part, "`", ""), -1) {
		rows = append(rows, [2]string{m[1], m[2]})
	}
	eventstest.Expect(t, slices.Equal(rows, codes()), "the page has %q, want %q", rows, codes())
	for _, command := range []string{"--help", "run --help", "elect --help", "hold --help"} {
		root := newRoot(&settings{})
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs(strings.Fields(command))
		eventstest.Must(t, root.Execute())
		for _, row := range codes() {
			eventstest.Expect(t, strings.Contains(out.String(), row[1]),
				"zkgrant %s does not say %q:\n%s", command, row[1], &out)
		}
	}
}

// The user and the password are read from a file. The content of a malformed file is not
// printed.
func TestSASLFile(t *testing.T) {
	srv := zktest.Start(t)
	srv.AddUser("ann", "se:cret")
	const good, refused, wrong = "succeeds", "is refused", "fails, and nothing of it is shown"
	for text, want := range map[string]string{
		"ann:se:cret": good, "ann:se:cret\n": good, "ann:se:cret\r\n": good, "ann:hush": refused,
		"": wrong, "hush": wrong, "ann:hush\nann:other": wrong,
	} {
		s := &settings{servers: srv.Addr(), timeout: 10 * time.Second}
		s.console, s.saslFile = newConsole(os.Stderr, s), filepath.Join(t.TempDir(), "user")
		eventstest.Must(t, os.WriteFile(s.saslFile, []byte(text), 0o600))
		err := s.ask(t.Context(), func(context.Context, *coordinator.Coordinator) error { return nil })
		got := wrong
		switch {
		case err == nil:
			got = good
		case errors.Is(err, coordinator.ErrNoAuth):
			got = refused
		case strings.Contains(err.Error(), "hush"):
			got = "is shown"
		}
		eventstest.Expect(t, got == want, "%q %s (%v), want that it %s", text, got, err, want)
	}
}

func TestAccessLists(t *testing.T) {
	for list, want := range map[string]string{
		"world":                             "[{31 world anyone}]",
		"creator":                           "[{31 auth }]",
		"world:anyone:r":                    "[{1 world anyone}]",
		"auth::cdrwa,world:anyone:r":        "[{31 auth } {1 world anyone}]",
		"digest:ann:a+b/c=:cdrw":            "[{15 digest ann:a+b/c=}]",
		"ip:10.0.0.0/8:rr":                  "[{1 ip 10.0.0.0/8}]",
		"ip:fe80::1:r,sasl:app/h@R:dar":     "[{1 ip fe80::1} {25 sasl app/h@R}]",
		"x509:CN=app,O=a:b,C=c:ra,sasl:z:c": "[{17 x509 CN=app,O=a:b,C=c} {4 sasl z}]",
	} {
		eventstest.Equal(t, fmt.Sprint(parseACL(list)), want+" <nil>", "%q", list)
	}
	for _, list := range []string{
		"", "world:anyone", "world:anyone:", "world:anyone:x", "world:anyone:rx", ":anyone:r", "world:anyone:r,",
		",world:anyone:r", "world:anyone:r,x", "creator,world",
	} {
		acl, err := parseACL(list)
		eventstest.Expect(t, err != nil, "%q is %v, want an error", list, acl)
	}
}

// --wait 0 is a try, as with flock.
func TestNoTimeToWaitIsATry(t *testing.T) {
	type waits struct {
		most         time.Duration
		bound, tries bool
	}
	for flags, want := range map[string]waits{
		"":                  {0, false, false},
		"--try":             {10 * time.Second, true, true},
		"--wait 0":          {10 * time.Second, true, true},
		"--wait 2s":         {2 * time.Second, true, false},
		"--try --wait 2s":   {2 * time.Second, true, true},
		"--try --wait 0":    {10 * time.Second, true, true},
		"--try --wait 1m5s": {65 * time.Second, true, true},
	} {
		w, cmd := &wanted{}, &cobra.Command{}
		w.bindWait(cmd)
		eventstest.Must(t, cmd.Flags().Parse(strings.Fields(flags)))
		most, bound := w.most()
		eventstest.Equal(t, waits{most, bound, w.tries()}, want, "%q", flags)
	}
}

// Before the first session, all warnings are shown. Later only the warning that servers
// leave a lock waiting, since no event reports that.
func TestWhichWarningsAreShown(t *testing.T) {
	for _, c := range []struct {
		level                     slog.Level
		verbose, quiet, connected bool
		text                      string
		shown                     bool
	}{
		{slog.LevelWarn, false, false, false, "any", true},
		{slog.LevelWarn, false, true, false, "any", false},
		{slog.LevelWarn, false, false, true, "any", false},
		{slog.LevelWarn, true, false, true, "any", true},
		{slog.LevelWarn, false, false, true, session.TurnedAway, true},
		{slog.LevelWarn, false, true, true, session.TurnedAway, false},
		{slog.LevelError, false, false, true, "any", true},
		{slog.LevelInfo, true, false, false, "any", false},
	} {
		var lines []string
		out := newConsole(os.Stderr, &settings{verbose: c.verbose, quiet: c.quiet})
		out.divert(func(line string) { lines = append(lines, line) })
		out.connected.Store(c.connected)
		slog.New(warnings{out}).Log(t.Context(), c.level, c.text, "error", "its cause")
		shown := slices.Contains(lines, "zkgrant: "+c.text+", error: its cause")
		eventstest.Expect(t, shown == c.shown, "%+v: the lines are %q", c, lines)
	}
}

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "4f1c0a5"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	built := func(release string, settings ...debug.BuildSetting) string {
		return version(&debug.BuildInfo{Main: debug.Module{Version: release}, Settings: settings}, true)
	}
	for want, got := range map[string]string{
		"v1.2.3":          built("v1.2.3", commit),
		"(devel) 4f1c0a5": built("(devel)", commit),
		"(devel) 4f1c0a5 with uncommitted changes": built("(devel)", commit, changed),
		"(devel)": built(""),
		"unknown": version(nil, false),
	} {
		eventstest.Expect(t, got == want, "the version is %s, want %s", got, want)
	}
}
