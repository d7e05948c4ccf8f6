package coordtest

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// shared has the real servers that the tests of a package share: one ensemble of each
// size, started when a test first requests it.
type shared struct {
	mu        sync.Mutex
	ensembles map[int]*ensemble.Ensemble
	folders   []string
}

var servers = shared{ensembles: map[int]*ensemble.Ensemble{}}

// Main runs the tests of a package, stops the servers that they share, and looks for
// leaked goroutines.
func Main(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing is a test run that stops the shared servers.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	for _, e := range servers.ensembles {
		_ = e.Close() // a server that stops late fails no test
	}
	for _, folder := range servers.folders {
		_ = os.RemoveAll(folder)
	}
	return code
}

// Servers returns an ensemble of n servers that the tests of the package share. A test
// must use its own paths, must not kill a server, and must not count what a server does.
// Without ZooKeeper on the machine, Servers skips the test, or fails it if real servers
// are required.
func Servers(t *testing.T, n int) *ensemble.Ensemble {
	t.Helper()
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if e := servers.ensembles[n]; e != nil {
		return e
	}
	installation := ensemble.Installed(t)
	folder, err := os.MkdirTemp("", "zkgrant") //nolint:usetesting // it outlives the first test that requests it
	eventstest.Must(t, err)
	servers.folders = append(servers.folders, folder)
	e, err := ensemble.Launch(RealContext(t), installation, folder, n)
	eventstest.Must(t, err)
	t.Log(e)
	servers.ensembles[n] = e
	return e
}
