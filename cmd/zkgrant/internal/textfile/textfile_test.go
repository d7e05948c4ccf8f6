package textfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// values returns the lines of a file, without comments and without the common prefix of
// the names.
func values(text []byte) string {
	var all []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			line = strings.TrimPrefix(strings.TrimSpace(line), "zkgrant_run_")
			all = append(all, strings.ReplaceAll(strings.TrimPrefix(line, "last_"), `{path="/a"}`, ""))
		}
	}
	return strings.Join(all, ", ")
}

func at(second int64) time.Time { return time.UnixMilli(second*1000 + 500) }

// The latest success and the number of losses survive later runs.
func TestFigures(t *testing.T) {
	var text []byte
	for _, step := range []struct {
		run     Run
		success string
		want    string
	}{
		{Run{Path: "/a", Ended: at(100), Code: 124, Waited: 2 * time.Second}, "",
			`end_timestamp_seconds 100.5, exit_code 124, waited_seconds 2, held_seconds 0, losses_total 0`},
		{Run{Path: "/a", Ended: at(200), Waited: time.Second, Held: time.Minute, Ran: true}, "200.5",
			`end_timestamp_seconds 200.5, exit_code 0, waited_seconds 1, held_seconds 60, losses_total 0`},
		{Run{Path: "/a", Ended: at(300), Code: 123, Held: time.Second, Lost: true}, "200.5",
			`end_timestamp_seconds 300.5, exit_code 123, waited_seconds 0, held_seconds 1, losses_total 1`},
		{Run{Path: "/a", Ended: at(400), Lost: true}, "200.5", // --conflict-code 0 does not count as a success
			`end_timestamp_seconds 400.5, exit_code 0, waited_seconds 0, held_seconds 0, losses_total 2`},
		{Run{Path: `/b"\`, Ended: at(500), Code: 1, Ran: true}, "",
			`end_timestamp_seconds{P} 500.5, exit_code{P} 1, waited_seconds{P} 0, held_seconds{P} 0, losses_total{P} 0`},
	} {
		text = step.run.Text(text)
		want := strings.ReplaceAll(step.want, "{P}", `{path="/b\"\\"}`)
		if step.success != "" {
			want = "success_timestamp_seconds " + step.success + ", " + want
		}
		eventstest.Equal(t, values(text), want, "after %+v", step.run)
	}
	for _, odd := range []string{success + `{path="/a"} soon`, success + `{path="/a"} -1`, losses + `{path="/a"} NaN`, losses + `{path="/a"} +Inf`, "\xff"} {
		if got := values(Run{Path: "/a", Ended: at(1)}.Text([]byte(odd))); strings.Contains(got, "success") || !strings.HasSuffix(got, "losses_total 0") {
			t.Errorf("after %q the file has %s, want nothing of it", odd, got)
		}
	}
}

// The file is replaced atomically. No temporary file is left, even after a failure.
func TestTheFileIsReplaced(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "backup.prom")
	run := Run{Path: "/a", Ended: at(1), Ran: true}
	for range 2 {
		before, _ := os.Open(file)
		eventstest.Must(t, run.Write(file))
		if before != nil { // a reader that has it open still sees all of the old file
			text := make([]byte, 10_000)
			n, _ := before.Read(text)
			eventstest.Expect(t, bytes.Equal(text[:n], run.Text(nil)),
				"a reader of the old file reads %q, want all of it", text[:n])
			_ = before.Close()
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the file has %v (%v), want that every user may read it", info, err)
	}
	eventstest.Must(t, os.Mkdir(filepath.Join(folder, "folder.prom"), 0o700))
	for _, wrong := range []string{filepath.Join(folder, "none", "a.prom"), filepath.Join(folder, "folder.prom")} {
		err := run.Write(wrong)
		eventstest.Expect(t, err != nil, "writing %s succeeds, want an error", wrong)
	}
	link := filepath.Join(folder, "link.prom")
	eventstest.Check(t, errors.Join(os.Symlink(file, link), os.Remove(file), os.WriteFile(file, nil, 0o600), run.Write(link)))
	if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, run.Text(nil)) {
		t.Errorf("the file behind a link has %q (%v), want the figures", text, err)
	}
	left, err := os.ReadDir(folder)
	eventstest.Expect(t, err == nil && len(left) == 3 && left[2].Type() == os.ModeSymlink,
		"the folder has %v (%v), want the file, the folder and the link", left, err)
}

// A link may be dangling, because its target was removed: the target is created again,
// and the link stays.
func TestALinkStaysALink(t *testing.T) {
	folder := t.TempDir()
	within := func(name string) string { return filepath.Join(folder, name) }
	run := Run{Path: "/a", Ended: at(1)}
	eventstest.Check(t, errors.Join(os.Mkdir(within("exporter"), 0o700), os.Symlink("exporter", within("folder"))))
	for link, to := range map[string]string{
		within("absolute"): within("exporter/a"), within("relative"): "folder/b", within("folder/up"): "../exporter/c", within("chain"): within("absolute"),
	} {
		eventstest.Must(t, os.Symlink(to, link))
	}
	for _, link := range []string{"absolute", "relative", "folder/up", "chain"} {
		eventstest.Must(t, run.Write(within(link)))
		info, err := os.Lstat(within(link))
		text, reading := os.ReadFile(within(link))
		if err = errors.Join(err, reading); err != nil || info.Mode().Type() != os.ModeSymlink || !bytes.Equal(text, run.Text(nil)) {
			t.Errorf("%s is %v with %q (%v), want a link to the figures", link, info, text, err)
		}
	}
	eventstest.Must(t, os.Symlink("round", within("round")))
	err := run.Write(within("round"))
	eventstest.Expect(t, err != nil, "writing to a link to itself succeeds, want an error")
}
