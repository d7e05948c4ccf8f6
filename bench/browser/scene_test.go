package browser_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/browser"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/board"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { browser.Main(m) }

// scene is a ZooKeeper server, a process with a board, and other processes that use
// locks.
type scene struct {
	t       *testing.T
	servers string
	c       *coordinator.Coordinator // the process with the board
	other   *coordinator.Coordinator // the other processes
	url     string
	board   atomic.Pointer[board.Board]
	broken  atomic.Bool // the board's data are answered with an error
}

// start starts a server inside the test, and a board of all locks. The test runs in
// parallel.
func start(t *testing.T, options ...board.Option) *scene {
	t.Helper()
	t.Parallel()
	return startOn(t, zktest.Start(t).Addr(), options...)
}

// startReal does the same, on a real server if ZKGRANT_REAL=1.
func startReal(t *testing.T) *scene {
	t.Helper()
	if os.Getenv("ZKGRANT_REAL") != "1" {
		return start(t)
	}
	t.Parallel()
	return startOn(t, ensemble.Start(t, 1).Connect())
}

func startOn(t *testing.T, servers string, options ...board.Option) *scene {
	t.Helper()
	s := &scene{t: t, servers: servers}
	lease := new(board.Lease)
	s.c, s.other = s.connect(coordinator.WithHooks(lease)), s.connect()
	s.show(append([]board.Option{board.WithLease(lease)}, options...)...)
	mux := http.NewServeMux()
	mux.Handle("/admin/board/", http.StripPrefix("/admin/board", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.broken.Load() && r.URL.Path == "/queues.json" {
			http.Error(w, "the servers do not answer", http.StatusServiceUnavailable)
			return
		}
		s.board.Load().ServeHTTP(w, r)
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.board.Load().Close()
		server.Close() // waits for every handler
	})
	s.url = server.URL + "/admin/board/"
	return s
}

// behaves fails the test if the page has asked for anything that is not below the URL, or
// has an error.
func behaves(t *testing.T, p *browser.Page, url string) {
	t.Helper()
	asked, errors := p.Requests(), p.Errors()
	for _, request := range asked {
		eventstest.Expect(t, strings.HasPrefix(request, url),
			"the page asks for %s, want nothing but what is below %s", request, url)
	}
	// The page, its files, the stream.
	eventstest.Expect(t, len(asked) >= 5, "%d requests of the page were seen, want 5 or more", len(asked))
	eventstest.Expect(t, len(errors) == 0, "errors in the page: %q", errors)
}

// show puts a new board in the place of the scene's.
func (s *scene) show(options ...board.Option) {
	s.t.Helper()
	b, err := board.New(s.c, "/", options...)
	eventstest.Must(s.t, err)
	if old := s.board.Swap(b); old != nil {
		old.Close()
	}
}

func (s *scene) connect(options ...coordinator.Option) *coordinator.Coordinator {
	s.t.Helper()
	options = append(options, coordinator.WithSessionTimeout(10*time.Second))
	c, err := coordinator.Connect(eventstest.Patiently(s.t, time.Minute), s.servers, options...)
	eventstest.Must(s.t, err)
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Errorf("closing: %v", err)
		}
	})
	return c
}

// queue makes contenders request the lock, one after another.
func (s *scene) queue(lock coordinator.Handle, names ...string) (all []*coordinator.Acquisition) {
	s.t.Helper()
	for _, name := range names {
		before := s.length(lock)
		all = append(all, lock.Acquire(s.t.Context(), coordinator.Data([]byte(name))))
		eventstest.Eventually(s.t, name+" is in the queue", func() bool { return s.length(lock) > before })
	}
	return all
}

func (s *scene) length(lock coordinator.Handle) int {
	queue, err := lock.Queue(s.t.Context())
	eventstest.Must(s.t, err)
	return len(queue)
}
