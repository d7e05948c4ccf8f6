package peers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// start runs a process and returns it with its lines, which only the caller reads.
func start(t *testing.T, role string) (*Process, <-chan Line) {
	t.Helper()
	lines := make(chan Line, 10) // more than there are lines
	p, err := Start(play(role), func(l Line) { lines <- l })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // the test has checked its result already
	return p, lines
}

func TestProcessEndsWithItsInputAndIsHeardToTheEnd(t *testing.T) {
	t.Parallel()
	before := time.Now()
	p, lines := start(t, "polite")
	var heard []Line
	for len(heard) == 0 || heard[len(heard)-1].Text != "ready" {
		heard = append(heard, eventstest.Receive(t, lines, "a line of the process"))
	}
	select {
	case <-p.Ended():
		t.Error("it ended before its input")
	default:
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	heard = append(heard, eventstest.Receive(t, lines, "its last line")) // it was heard when Close returns
	var texts []string
	for _, l := range heard {
		texts = append(texts, l.Text)
		if l.At.Before(before) || l.At.After(time.Now()) {
			t.Errorf("%q was heard at %v, want a time after %v, and not in the future", l.Text, l.At, before)
		}
		before = l.At
	}
	if want := []string{"line 0", "line 1", "line 2", "ready", "bye"}; !slices.Equal(texts, want) {
		t.Errorf("heard %q, want %q", texts, want)
	}
	if said := p.Complaints(); said != "a remark\n" {
		t.Errorf("complaints %q, want what the process wrote to its standard error", said)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closed a second time: %v, want no error", err)
	}
}

func TestProcessThatFails(t *testing.T) {
	t.Parallel()
	p, _ := start(t, "failing")
	eventstest.Receive(t, p.Ended(), "the end of the process")
	err := p.Close()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "what went wrong") {
		t.Errorf("Close of a process that failed: %v; want its exit status 3 and what it complained of", err)
	}
}

func TestProcessThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p, lines := start(t, "stubborn")
	eventstest.Receive(t, lines, "a line of the process")
	p.patience = 10 * time.Millisecond
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Close of a process that does not end: %v; want that it was killed", err)
	}
	select {
	case <-p.Ended():
	default:
		t.Error("Close has returned, and it lives")
	}
}

func TestProcessThatIsNoProgram(t *testing.T) {
	t.Parallel()
	cmd := play("polite")
	cmd.Path = t.TempDir()
	if p, err := Start(cmd, func(Line) {}); err == nil {
		t.Errorf("Start of a folder = %v, want an error", p)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var said tail
	for range 3 {
		if n, err := said.Write([]byte(strings.Repeat("x", tailSize))); n != tailSize || err != nil {
			t.Errorf("writing %d bytes: %d, %v", tailSize, n, err)
		}
	}
	if n, err := said.Write([]byte("end")); n != 3 || err != nil {
		t.Errorf("writing 3 bytes: %d, %v", n, err)
	}
	if kept := said.String(); len(kept) != tailSize || !strings.HasSuffix(kept, "xend") {
		t.Errorf("kept %d bytes, ending in %q; want %d, ending in xend", len(kept), kept[len(kept)-10:], tailSize)
	}
}

func TestProcessIsKilled(t *testing.T) {
	t.Parallel()
	p, lines := start(t, "stubborn")
	eventstest.Receive(t, lines, "a line of the process")
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Ended():
	default:
		t.Error("Kill has returned, and it lives")
	}
	if err := p.Kill(); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
}
