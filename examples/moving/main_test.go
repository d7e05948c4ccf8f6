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

// chroot is where the examples have their locks: in our connect string, in front of
// the paths of those who have no chroot.
const chroot = "/app"

// server starts a server that is reached by TCP, as clients of other libraries need it.
func server(t *testing.T) *zktest.Server {
	t.Helper()
	srv, err := zktest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}

// connect returns a coordinator that lives as long as the test.
func connect(t *testing.T, srv *zktest.Server) *coordinator.Coordinator {
	t.Helper()
	return stagetest.Connect(t, srv.Addr()+chroot, coordinator.WithSessionTimeout(10*time.Second))
}

// bounded is a context that ends a hang before the test's time is over.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// record is what happened, in order.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// must fails if something else has happened than this.
func (r *record) must(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.lines, want) {
		t.Errorf("happened: %q, want %q", r.lines, want)
	}
}
