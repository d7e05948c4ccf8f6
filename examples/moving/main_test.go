package moving_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chroot is the parent of the examples' locks: in our connect string, and in the paths of clients without a chroot.
const chroot = "/app"

// server starts a server with a TCP port, as clients of other libraries need it.
func server(t *testing.T) *zktest.Server {
	t.Helper()
	srv, err := zktest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}

// connect returns a coordinator that the end of the test closes.
func connect(t *testing.T, srv *zktest.Server) *coordinator.Coordinator {
	t.Helper()
	return stagetest.Connect(t, srv.Addr()+chroot, coordinator.WithSessionTimeout(10*time.Second))
}

// bounded returns a context that ends a hang before the test's time is over.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// record is what has happened, in order.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// must fails unless exactly this has happened.
func (r *record) must(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.lines, want) {
		t.Errorf("happened: %q, want %q", r.lines, want)
	}
}
