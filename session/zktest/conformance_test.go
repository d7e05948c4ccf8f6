package zktest

import (
	"bufio"
	"context"
	"flag"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// The files below testdata/conformance are one script: what clients send, and
// what a ZooKeeper server lets them observe. The answers in the files are those
// of a real server, and only a real server rewrites them:
//
//	go test ./session/zktest -run ConformanceOfRealServer -rewrite
//
// That needs one on the machine; package ensemble says where it looks.
// See testdata/conformance/README.md for how to read and write one.
const conformanceFiles = "testdata/conformance/*.txt"

// minConformanceSteps is how many steps the script has at least.
const minConformanceSteps = 150

// host starts the server that a file of the script is played to.
type host interface {
	start(t *testing.T, features []string)
	dial() (net.Conn, error)
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

func TestConformanceOverTCP(t *testing.T) {
	answersAreFixed(t)
	playScript(t, func(t *testing.T, file string) int {
		t.Helper()
		return play(t, file, &double{})
	})
}

func TestConformanceOfRealServer(t *testing.T) {
	playScript(t, func(t *testing.T, file string) int {
		t.Helper()
		return play(t, file, &apache{})
	})
}

// answersAreFixed skips a test of the double while the expected answers are
// rewritten: what is expected of it, it does not decide.
func answersAreFixed(t *testing.T) {
	t.Helper()
	if flag.Lookup("rewrite").Value.String() == "true" {
		t.Skip("the answers are those of a real server: run again without -rewrite")
	}
}

// playScript plays each file, on a server of its own, and counts the steps.
func playScript(t *testing.T, play func(*testing.T, string) int) {
	t.Helper()
	files, err := filepath.Glob(conformanceFiles)
	if err != nil {
		t.Fatal(err)
	}
	steps, skipped := 0, false
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			defer func() { skipped = skipped || t.Skipped() }()
			n := play(t, file)
			t.Logf("%d steps", n)
			steps += n
		})
	}
	t.Logf("%d steps in %d files", steps, len(files))
	// A -run pattern that picks some of the files leaves the others out.
	picked := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	if steps < minConformanceSteps && !picked && !skipped && !t.Failed() {
		t.Errorf("the script has %d steps, want at least %d", steps, minConformanceSteps)
	}
}

// play plays one file and returns how many steps it has.
func play(t *testing.T, file string, h host) int {
	t.Helper()
	p := newPlayer(h)
	t.Cleanup(p.hangUp)
	datadriven.RunTest(t, file, p.step)
	return p.steps
}

// double is the server under test.
type double struct{ *Server }

func (d *double) start(t *testing.T, features []string) {
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
}

func (d *double) dial() (net.Conn, error) {
	if d.inMemory {
		return d.DialContext(context.Background(), "tcp", d.Addr())
	}
	return net.Dial("tcp", d.Addr())
}

// apache is the server that the answers come from. Its ticks and its looks at the
// containers are those of double.
type apache struct{ addr string }

func (r *apache) start(t *testing.T, features []string) {
	t.Helper()
	var settings []ensemble.Setting
	for _, f := range features {
		switch f {
		case "extended-types":
			settings = append(settings, ensemble.Property("zookeeper.extendedTypesEnabled", "true"))
		case "quotas":
			settings = append(settings, ensemble.Property("zookeeper.enforceQuota", "true"))
		default:
			t.Fatalf("no such feature: %s", f)
		}
	}
	settings = append(settings, ensemble.Tick(500*time.Millisecond), ensemble.Property("znode.container.checkIntervalMs", "200"))
	r.addr = ensemble.Start(t, 1, settings...).Addr(0)
}

func (r *apache) dial() (net.Conn, error) { return net.Dial("tcp", r.addr) }

// line is a connection of the script.
type line struct {
	net.Conn
	in *frameReader
}

func newLine(nc net.Conn) *line { return &line{nc, &frameReader{r: bufio.NewReader(nc)}} }

// lineTimeout bounds the wait for one frame. The longest the script waits for is
// the end of a session.
const lineTimeout = 20 * time.Second

func (l *line) next() ([]byte, error) {
	if err := l.SetReadDeadline(time.Now().Add(lineTimeout)); err != nil {
		return nil, err
	}
	return l.in.next()
}
