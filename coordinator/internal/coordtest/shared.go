package coordtest

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// shared are the real servers that the tests of a package share: one ensemble of each
// size, started when a test first asks for it.
type shared struct {
	mu        sync.Mutex
	ensembles map[int]*ensemble.Ensemble
	folders   []string
}

var servers = shared{ensembles: map[int]*ensemble.Ensemble{}}

// Main runs the tests of a package, ends the servers that they share, and looks for
// goroutines that are left.
func Main(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing is a test run that ends the shared servers.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	for _, e := range servers.ensembles {
		_ = e.Close() // a server that dies late fails no test
	}
	for _, folder := range servers.folders {
		_ = os.RemoveAll(folder)
	}
	return code
}

// Servers returns an ensemble of n servers that the tests of the package share. A test
// uses paths of its own there, kills no server, and does not count what a server does.
// Without a ZooKeeper on the machine it skips the test, or fails it if real servers are
// required.
func Servers(t *testing.T, n int) *ensemble.Ensemble {
	t.Helper()
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if e := servers.ensembles[n]; e != nil {
		return e
	}
	installation := ensemble.Installed(t)
	folder, err := os.MkdirTemp("", "zkgrant") //nolint:usetesting // it outlives the test that asks first
	eventstest.Must(t, err)
	servers.folders = append(servers.folders, folder)
	e, err := ensemble.Launch(RealContext(t), installation, folder, n)
	eventstest.Must(t, err)
	t.Log(e)
	servers.ensembles[n] = e
	return e
}
