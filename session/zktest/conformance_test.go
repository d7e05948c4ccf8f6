package zktest

import (
	"cmp"
	"context"
	"flag"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The files below testdata/conformance are one script: what clients send, and what a
// ZooKeeper server lets them observe. The answers in the files are those of a real
// server, and only a real server rewrites them:
//
//	ZKGRANT_REAL=1 go test ./session/zktest -run TestRealServer -rewrite
//
// That needs a real server on the machine; package ensemble says where it looks.
// testdata/conformance/README.md says how to read and write a file.
const conformanceFiles = "testdata/conformance/*.txt"

const minConformanceSteps = 150

// host starts a server for a file of the script.
type host interface {
	start(t *testing.T, features []string) (version string)
	dial() (net.Conn, error)
	end(t *testing.T, p *player) // after the file
}

func TestConformanceInBubble(t *testing.T) {
	answersAreFixed(t)
	playScript(t, func(t *testing.T, file string) int {
		t.Helper()
		steps := 0
		eventstest.Bubble(t, func(t *testing.T) { steps = play(t, file, &double{}) })
		return steps
	})
}

func TestConformanceOverTCP(t *testing.T) { //nolint:tparallel // one after the other, beside other tests
	t.Parallel() // it waits most of the time
	answersAreFixed(t)
	playScript(t, func(t *testing.T, file string) int {
		t.Helper()
		return play(t, file, &double{})
	})
}

// answersAreFixed skips a test of the double while a real server rewrites the expected
// answers.
func answersAreFixed(t *testing.T) {
	t.Helper()
	if flag.Lookup("rewrite").Value.String() == "true" {
		t.Skip("the answers are those of a real server: run again without -rewrite")
	}
}

func playScript(t *testing.T, play func(*testing.T, string) int) {
	t.Helper()
	files, err := filepath.Glob(conformanceFiles)
	eventstest.Must(t, err)
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	steps, other, skipped := 0, 0, false
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			ran := false
			defer func() { skipped = skipped || !ran }()
			n := play(t, file)
			ran = true
			if steps += max(n, -n); n < 0 {
				other++
				t.Skip("for other versions, which make versions runs")
			}
			t.Logf("%d steps", n)
		})
	}
	t.Logf("%d steps in %d files, %d of them for other versions", steps, len(files), other)
	// A -run pattern that picks some of the files omits the others.
	picked := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	eventstest.Expect(t, steps >= minConformanceSteps || picked || skipped || t.Failed(),
		"the script has %d steps, want at least %d", steps, minConformanceSteps)
}

// rank returns 0 for the file about a server that was never written to. The real server
// is shared, so that file must be first.
func rank(file string) int {
	if filepath.Base(file) == "nodes.txt" {
		return 0
	}
	return 1
}

// play plays one file, and returns how many steps it has, as a negative number if the
// file is about other versions.
func play(t *testing.T, file string, h host) int {
	t.Helper()
	p := &player{
		tb: t, host: h, clients: map[string]*scriptClient{},
		names: names{base: -1, times: map[int64]int64{}}, granted: map[int64][]byte{},
	}
	t.Cleanup(func() { h.end(t, p) })
	datadriven.RunTest(t, file, p.step)
	if p.otherVersions {
		return -p.steps
	}
	return p.steps
}

type double struct{ *Server }

func (d *double) start(t *testing.T, features []string) string {
	t.Helper()
	settings := []Setting{Tick(500 * time.Millisecond), CheckInterval(200 * time.Millisecond)}
	for _, f := range features {
		switch f {
		case "extended-types":
			settings = append(settings, ExtendedTypes())
		case "quotas":
			settings = append(settings, EnforceQuotas())
		default:
			t.Fatalf("no such feature: %s", f)
		}
	}
	d.Server = Start(t, settings...)
	return "3.8.0"
}

func (d *double) end(_ *testing.T, p *player) { p.hangUp() }

func (d *double) dial() (net.Conn, error) {
	if d.inMemory {
		return d.DialContext(context.Background(), "tcp", d.Addr())
	}
	return net.Dial("tcp", d.Addr())
}
