package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

var (
	// changing matches the parts of a line that differ in each run.
	changing = regexp.MustCompile(`(time|node|since)=\S+ |(session=0x[0-9a-f]+|epoch=\d+) ?|(server|deadline)=\S+`)
	// unrelated matches lines about connections, and about a probe just when its node is
	// removed.
	unrelated = regexp.MustCompile(`client: |msg=connected|connection lost|probe failed`)
)

// linesOf returns the lines about locks and sessions, without the parts that change.
func linesOf(log *eventstest.Screen) (lines []string) {
	for line := range strings.Lines(log.String()) {
		if !unrelated.MatchString(line) {
			lines = append(lines, strings.TrimSpace(changing.ReplaceAllString(line, "")))
		}
	}
	return lines
}

func slogTo(log *eventstest.Screen, level slog.Level) coordinator.Option {
	return coordinator.WithSlog(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
}

// TestTheLogTellsTheLifeOfLocks: sessions and elections are logged at level info, each
// lock at level debug, in readable fields. The token is the Grant's.
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
		coordtest.Case(t, level.String(), func(t *testing.T, srv *zktest.Server) {
			log := &eventstest.Screen{}
			c := coordtest.Connect(t, srv, slogTo(log, level))
			first, one := coordtest.Hold(t, c.Mutex(lockPath))
			synctest.Wait() // the log gets the Grant after the channel
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
			expire(t, srv, c)
			time.Sleep(5 * time.Second)
			term, four := coordtest.Hold(t, c.Election(electionPath, coordinator.Revocable()))
			time.Sleep(time.Minute)
			eventstest.Must(t, c.Revoke(t.Context(), electionPath, 0))
			synctest.Wait()
			fifth := c.Mutex("none").Acquire(t.Context())
			eventstest.Must(t, c.Close())
			var names []string
			for i, a := range []*coordinator.Acquisition{first, second, third, term, fifth} {
				names = append(names, fmt.Sprintf(" id=%d", i+1), fmt.Sprintf(" id=%d", a.ID()))
			}
			for name, token := range map[string]int64{"T1": one.Token, "T2": two.Token, "T4": four.Token} {
				names = append(names, " token="+name, fmt.Sprint(" token=", token))
			}
			want := strings.Split(strings.NewReplacer(names...).Replace(strings.Join(lines, "\n")), "\n")
			if level == slog.LevelInfo {
				want = slices.DeleteFunc(want, func(line string) bool { return strings.HasPrefix(line, "level=DEBUG") })
			}
			got := linesOf(log)
			// Two goroutines log the end of the first and the Grant of the second.
			for i, line := range got {
				grant := fmt.Sprintf(`"lock granted" path=%s id=%d `, lockPath, second.ID())
				if i > 0 && strings.Contains(line, `"lock released"`) && strings.Contains(got[i-1], grant) {
					got[i-1], got[i] = got[i], got[i-1]
				}
			}
			expectEqual(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "on the level %v the log says", level)
		})
	}
}

// TestSlogGetsValues and not their text: durations and errors are passed as such.
func TestSlogGetsValues(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		got := map[string]slog.Value{} // the attributes of the last record
		c := coordtest.Connect(t, srv, coordinator.WithSlog(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{
			Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				mu.Lock()
				defer mu.Unlock()
				got[a.Key] = a.Value
				return a
			},
		})))
		c.Mutex("none").Acquire(t.Context())
		mu.Lock()
		defer mu.Unlock()
		err, ok := got["error"].Any().(error)
		expect(t, ok && errors.Is(err, coordinator.ErrPath), "the handler gets %v, want ErrPath", got)
		expect(t, got["waited"].Kind() == slog.KindDuration && got["msg"].String() == "lock given up" &&
			got["time"].Time().Equal(time.Now()), "the handler gets %v, want the end of now with a duration", got)
	})
}

// TestTheLaterLoggerCounts: the last logger option wins, and a nil handler logs nothing.
func TestTheLaterLoggerCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for _, what := range []string{"slog", "zap", "none"} {
			log := &eventstest.Screen{}
			core, logs := observer.New(zap.InfoLevel)
			toZap, toSlog := coordinator.WithLogger(zap.New(core)), slogTo(log, slog.LevelInfo)
			coordtest.Connect(t, srv, map[string][]coordinator.Option{
				"slog": {toZap, toSlog}, "zap": {toSlog, toZap}, "none": {toZap, coordinator.WithSlog(nil)},
			}[what]...)
			expectEqual(t, logs.Len() > 0, what == "zap", "%s last: it is logged by zap", what)
			expectEqual(t, len(linesOf(log)) > 0, what == "slog", "%s last: it is logged by slog", what)
		}
	})
}

// TestTheLevelOfALogMayChange: each line is logged once, and long waits are logged, also
// if the logger took no such lines at first.
func TestTheLevelOfALogMayChange(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		log, level := &eventstest.Screen{}, &slog.LevelVar{}
		level.Set(slog.LevelError)
		c := coordtest.Connect(t, srv,
			coordinator.WithSlog(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})))
		level.Set(slog.LevelDebug)
		coordtest.Hold(t, c.Mutex(lockPath))
		c.Mutex(lockPath).Acquire(t.Context())
		time.Sleep(2 * timeoutOfAll)
		for _, line := range []string{"lock granted", "lock queued", "still waiting for the lock"} {
			n := strings.Count(log.String(), line)
			expect(t, n == 1, "%q is logged %d times, want once:\n%s", line, n, log)
		}
	})
}

// TestALongWaitIsLogged: one line per path for all waiters there, at T and then ever less
// often, with one read per line, and none while the server turns requests away.
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
			expectEqual(t, lines().Len(), step.want, "lines after %v more", step.wait)
		}
		expectEqual(t, srv.Requests(zktest.OpGetData)-before, lines().Len(), "reads, of which each line takes one")
		got := lines().All()[0].ContextMap()
		want := map[string]any{"waiters": int64(100), "ahead": int64(1), "data": "worker 7", "path": lockPath}
		for key, value := range want {
			expectEqual(t, got[key], value, "in the line %s", key)
		}
	})
}
