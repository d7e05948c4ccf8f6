package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// page is what a handler has written.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// lines are the lines about locks and sessions. Numbers that differ each time are left
// out. So are lines about connections, and about a probe at the moment in which its node
// is removed.
func (p *page) lines() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changing := regexp.MustCompile(`time=\S+ |session=0x[0-9a-f]+ ?|epoch=\d+ ?|node=\S+ |server=\S+|deadline=\S+|since=\S+ `)
	for line := range strings.Lines(p.text.String()) {
		if !slices.ContainsFunc([]string{"client: ", "msg=connected", "connection lost", "probe failed"}, func(of string) bool { return strings.Contains(line, of) }) {
			lines = append(lines, strings.TrimSpace(changing.ReplaceAllString(line, "")))
		}
	}
	return lines
}

func slogTo(p *page, level slog.Level) coordinator.Option {
	return coordinator.WithSlog(slog.NewTextHandler(p, &slog.HandlerOptions{Level: level}))
}

// TestTheLogTellsTheLifeOfLocks: the info level is about sessions and elections, the
// debug level about each lock, in fields that a person can read. The token is the
// Grant's.
func TestTheLogTellsTheLifeOfLocks(t *testing.T) {
	lines := []string{
		`level=INFO msg="session established" timeout=10s`,
		`level=DEBUG msg="lock requested" path=/locks/reindex id=1 kind=mutex try=false`,
		`level=DEBUG msg="lock granted" path=/locks/reindex id=1 token=T1 waited=0s`,
		`level=DEBUG msg="lock requested" path=/locks/reindex id=2 kind=mutex try=false`,
		`level=DEBUG msg="lock queued" path=/locks/reindex id=2 ahead=1`,
		`level=INFO msg="still waiting for the lock" path=/locks/reindex id=2 waited=10s waiters=1 ahead=1 data=""`,
		`level=DEBUG msg="lock released" path=/locks/reindex id=1 token=T1 waited=0s held=1m0s`,
		`level=DEBUG msg="lock granted" path=/locks/reindex id=2 token=T2 waited=1m0s`,
		`level=DEBUG msg="lock requested" path=/locks/reindex id=3 kind=mutex try=false`,
		`level=DEBUG msg="lock queued" path=/locks/reindex id=3 ahead=1`,
		`level=INFO msg="still waiting for the lock" path=/locks/reindex id=3 waited=10s waiters=1 ahead=1 data=""`,
		`level=DEBUG msg="lock given up" path=/locks/reindex id=3 error="context canceled" waited=1m0s`,
		`level=WARN msg="session expired"`,
		`level=WARN msg="lock lost" path=/locks/reindex id=2 token=T2 reason="session expired" held=2m0s`,
		`level=INFO msg="session established" timeout=10s`,
		`level=INFO msg="leadership requested" path=/service/leader id=4 kind=election try=false`,
		`level=INFO msg="leadership granted" path=/service/leader id=4 token=T4 waited=0s`,
		`level=INFO msg="leadership revocation requested" path=/service/leader id=4`,
		`level=WARN msg="leadership lost" path=/service/leader id=4 token=T4 reason=revoked held=1m0s`,
		`level=DEBUG msg="lock requested" path=none id=5 kind=mutex try=false`,
		`level=DEBUG msg="lock given up" path=none id=5 error="zkgrant: malformed path: \"none\" does not start with a slash" waited=0s`,
		`level=INFO msg="session closed" confirmed=true`,
	}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		t.Run(level.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				written := &page{}
				c := coordtest.Connect(t, srv, slogTo(written, level))
				first, one := coordtest.Hold(t, c.Mutex(lockPath))
				synctest.Wait() // the log tells of it after the channel
				second := coordtest.Queue(c.Mutex(lockPath))
				time.Sleep(time.Minute)
				first.Release()
				two := coordtest.Soon(t, second)
				time.Sleep(time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				third := c.Mutex(lockPath).Acquire(ctx)
				time.Sleep(time.Minute)
				cancel()
				synctest.Wait()
				eventstest.Must(t, srv.Expire(c.SessionID()))
				time.Sleep(5 * time.Second)
				term := c.Election(electionPath, coordinator.Revocable()).Acquire(t.Context())
				four := coordtest.Soon(t, term)
				time.Sleep(time.Minute)
				eventstest.Must(t, c.Revoke(t.Context(), electionPath, 0))
				synctest.Wait()
				fifth := c.Mutex("none").Acquire(t.Context())
				eventstest.Must(t, c.Close())
				ids := map[string]*coordinator.Acquisition{"1": first, "2": second, "3": third, "4": term, "5": fifth}
				var want []string
				for _, line := range lines {
					for name, token := range map[string]int64{"T1": one.Token, "T2": two.Token, "T4": four.Token} {
						line = strings.ReplaceAll(line, "token="+name+" ", fmt.Sprintf("token=%d ", token))
					}
					if before, after, has := strings.Cut(line, " id="); has {
						line = fmt.Sprintf("%s id=%d%s", before, ids[after[:1]].ID(), after[1:])
					}
					if level == slog.LevelDebug || !strings.HasPrefix(line, "level=DEBUG") {
						want = append(want, line)
					}
				}
				got := written.lines()
				// The end of the first and the grant of the second are told by two
				// goroutines.
				if i := slices.IndexFunc(got, func(l string) bool { return strings.Contains(l, `"lock released"`) }); i > 0 && strings.Contains(got[i-1], `"lock granted"`) && strings.Contains(got[i-1], fmt.Sprintf("id=%d ", second.ID())) {
					got[i-1], got[i] = got[i], got[i-1]
				}
				if !slices.Equal(got, want) {
					t.Errorf("on the level %v the log says\n%s\nwant\n%s", level, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

// keeper is a handler that keeps its records.
type keeper struct {
	slog.Handler
	mu      *sync.Mutex
	records *[]slog.Record
}

func (k keeper) Handle(_ context.Context, r slog.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	*k.records = append(*k.records, r)
	return nil
}

func (k keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	return keeper{k.Handler.WithAttrs(attrs), k.mu, k.records}
}

// TestSlogGetsValues and not their texts: a duration is one, and so is an error.
func TestSlogGetsValues(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var records []slog.Record
		k := keeper{slog.NewTextHandler(&page{}, &slog.HandlerOptions{Level: slog.LevelDebug}), &sync.Mutex{}, &records}
		c := coordtest.Connect(t, srv, coordinator.WithSlog(k))
		c.Mutex("none").Acquire(t.Context())
		k.mu.Lock()
		defer k.mu.Unlock()
		last := records[len(records)-1]
		got := map[string]slog.Value{}
		last.Attrs(func(a slog.Attr) bool {
			got[a.Key] = a.Value
			return true
		})
		if err, ok := got["error"].Any().(error); !ok || !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("the handler gets the error %v, want ErrPath", got["error"])
		}
		if kind := got["waited"].Kind(); kind != slog.KindDuration || last.Message != "lock given up" || !last.Time.Equal(time.Now()) {
			t.Errorf("the handler gets %v, want the end of now with a duration", last)
		}
	})
}

// TestTheLaterLoggerCounts; a nil handler logs nothing.
func TestTheLaterLoggerCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for _, what := range []string{"slog", "zap", "none"} {
			written := &page{}
			core, logs := observer.New(zap.InfoLevel)
			toZap, toSlog, toNone := coordinator.WithLogger(zap.New(core)), slogTo(written, slog.LevelInfo), coordinator.WithSlog(nil)
			coordtest.Connect(t, srv, map[string][]coordinator.Option{
				"slog": {toZap, toSlog}, "zap": {toSlog, toZap}, "none": {toZap, toNone},
			}[what]...)
			if byZap, bySlog := logs.Len() > 0, len(written.lines()) > 0; byZap != (what == "zap") || bySlog != (what == "slog") {
				t.Errorf("%s last: it is logged by zap: %v, by slog: %v", what, byZap, bySlog)
			}
		}
	})
}

// TestALongWaitIsLogged: one line a path for all that wait there, at T and then ever more
// seldom, with one read for each line, and none while the server turns requests away.
func TestALongWaitIsLogged(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.InfoLevel)
		log := coordinator.WithLogger(zap.New(core))
		holder, c := coordtest.Connect(t, srv), coordtest.Connect(t, srv, log)
		coordtest.Hold(t, holder.Mutex(lockPath), coordinator.Data([]byte("worker 7")))
		for range 100 {
			coordtest.Queue(c.Mutex(lockPath))
		}
		time.Sleep(time.Second)
		coordtest.Queue(coordtest.Connect(t, srv, log).Mutex(lockPath)) // has no line of its own
		coordtest.Queue(c.Mutex("/locks/of/another")).Release()
		before := srv.Requests(zktest.OpGetData)
		lines := func() *observer.ObservedLogs { return logs.FilterMessage("still waiting for the lock") }
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{8 * time.Second, 0}, {6 * time.Second, 1}, {50 * time.Second, 1}, {10 * time.Second, 2}, {time.Hour, 7}} {
			time.Sleep(step.wait)
			expect(t, lines().Len() == step.want, "%d lines after %v more, want %d", lines().Len(), step.wait, step.want)
		}
		if n := srv.Requests(zktest.OpGetData) - before; n != lines().Len() {
			t.Errorf("%d reads for %d lines, want one each", n, lines().Len())
		}
		got := lines().All()[0].ContextMap()
		if got["waiters"] != int64(100) || got["ahead"] != int64(1) || got["data"] != "worker 7" || got["path"] != lockPath {
			t.Errorf("the line has %v, want 100 waiters, and the holder with its data", got)
		}
	})
}
