package ensemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	startAttempts = 3                     // a start fails if another process took one of the ports
	startTimeout  = 30 * time.Second      // of one attempt; three servers on one slow core take much less
	pollInterval  = 10 * time.Millisecond // between queries to a server that is not ready
)

// Ensemble is a set of running servers, numbered from 0. Its methods are safe for
// concurrent use.
type Ensemble struct {
	servers      []*server
	version      string // as reported by the first server after the start
	config       *config
	installation Installation // of servers for which Use was not called
}

// Start runs n servers, standalone if n is 1, waits until all of them serve, and ends
// them with the test. If the test fails, it logs the end of their logs. If the machine
// has no ZooKeeper (see [Find]), it skips the test and says how to get one; with
// ZKGRANT_REAL=1 in the environment, it fails the test. It must be called from the test's
// goroutine.
func Start(tb testing.TB, n int, settings ...Setting) *Ensemble {
	tb.Helper()
	installation := Installed(tb)
	ctx, cancel := context.WithTimeout(context.Background(), startAttempts*startTimeout)
	defer cancel()
	begin := time.Now()
	e, err := Launch(ctx, installation, tb.TempDir(), n, settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Logf("%s, started in %v", e, time.Since(begin).Round(time.Millisecond))
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			for _, s := range e.servers {
				tb.Logf("server %d (%s), end of its log:\n%s", s.index, s.addr(), s.tail(40))
			}
		}
	})
	return e
}

// Installed is [Find] for a test. Without an installation, the test stops.
func Installed(tb testing.TB) Installation {
	tb.Helper()
	installation, err := Find()
	if err != nil {
		if errors.Is(err, ErrNotFound) && os.Getenv("ZKGRANT_REAL") != "1" {
			tb.Skip(err)
		}
		tb.Fatal(err)
	}
	return installation
}

// Launch is [Start] for programs that are not tests. It runs n servers of the
// installation and returns when all of them serve. They write below folder, which must
// exist. The caller must Close the ensemble. If Launch fails, no process is left, but the
// written files are.
func Launch(ctx context.Context, installation Installation, folder string, n int, settings ...Setting) (*Ensemble, error) {
	if n < 1 {
		return nil, fmt.Errorf("ensemble: %d servers asked for", n)
	}
	if addresses := newConfig(settings).addresses; addresses != nil && len(addresses) != n {
		return nil, fmt.Errorf("ensemble: %d addresses for %d servers", len(addresses), n)
	}
	var failures []error
	for attempt := range startAttempts {
		e := &Ensemble{
			config:       newConfig(settings),
			installation: installation,
		}
		err := e.launch(ctx, filepath.Join(folder, fmt.Sprintf("attempt%d", attempt)), n)
		if err == nil {
			e.version, err = e.Version(ctx, 0)
		}
		if err == nil {
			return e, nil
		}
		failures = append(failures, err, e.Close())
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

// launch is one attempt of Launch. If it fails, some servers may be running.
func (e *Ensemble) launch(ctx context.Context, folder string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	picked, err := pickPorts(n)
	if err != nil {
		return err
	}
	for i, p := range picked {
		s := &server{index: i, ports: p, folder: filepath.Join(folder, fmt.Sprintf("server%d", i)), host: "127.0.0.1"}
		if addresses := e.config.addresses; addresses != nil {
			s.host, s.ports.client = addresses[i], picked[0].client
		}
		e.servers = append(e.servers, s)
	}
	members := e.config.members
	if members == nil {
		for i := range e.servers {
			members = append(members, i)
		}
	}
	if err := e.List(members...); err != nil {
		return err
	}
	for _, i := range members {
		if err := e.Restart(i); err != nil {
			return err
		}
	}
	// A server that cannot use its client port ends by itself. A server that cannot use
	// another port retries forever. The log is new, so it has no lines of an earlier
	// process.
	return e.wait(ctx, (*server).portTaken)
}

// Close kills every server, and returns when the processes are gone. It is idempotent.
func (e *Ensemble) Close() error {
	var errs []error
	for _, s := range e.servers {
		errs = append(errs, s.kill())
	}
	return errors.Join(errs...)
}

// String returns the number of servers, their version, and their origin.
func (e *Ensemble) String() string {
	return fmt.Sprintf("ensemble of %d, ZooKeeper %s from %s", len(e.servers), e.version, e.installation.Origin)
}

// Size returns the number of servers, running or not.
func (e *Ensemble) Size() int { return len(e.servers) }

// Addr returns the client address of server i, as host:port. A restart does not change
// it.
func (e *Ensemble) Addr(i int) string { return e.servers[i].addr() }

// Connect returns the connect string of the whole ensemble: the addresses of all servers,
// running or not, separated by commas.
func (e *Ensemble) Connect() string {
	addrs := make([]string, len(e.servers))
	for i := range e.servers {
		addrs[i] = e.Addr(i)
	}
	return strings.Join(addrs, ",")
}

// DataDir returns the folder with server i's data. A test may copy or replace it while
// the server is killed.
func (e *Ensemble) DataDir(i int) string { return e.servers[i].dataDir() }

// Pid returns the id of server i's process, or 0 after Kill and before the first start.
func (e *Ensemble) Pid(i int) int { return e.servers[i].pid() }

// Kill ends server i like a power cut (SIGKILL), and returns when its process and its
// connections are gone. It does nothing if the server is not running.
func (e *Ensemble) Kill(i int) error { return e.servers[i].kill() }

// Stop halts server i (SIGSTOP). Its connections stay open. Once Stop has returned, the
// server answers nothing; on systems other than Linux, that takes a moment longer. Cont
// and Kill end that.
func (e *Ensemble) Stop(i int) error { return e.servers[i].hold(true) }

// Cont continues server i after Stop.
func (e *Ensemble) Cont(i int) error { return e.servers[i].hold(false) }

// List writes the list of the ensemble's members for each of them. A server reads the
// list when it starts, so a running server keeps its list until it is restarted.
func (e *Ensemble) List(members ...int) error {
	for _, i := range members {
		if err := e.servers[i].prepare(e.config.file(e.servers, members, i)); err != nil {
			return err
		}
	}
	return nil
}

// Restart runs server i again after Kill, or for the first time, with the same ports and
// data. It returns before the server serves; see [Ensemble.Wait].
func (e *Ensemble) Restart(i int) error {
	s := e.servers[i]
	from := e.installation
	if s.installation != nil {
		from = *s.installation
	}
	return s.start(from.Java, e.config.arguments(from, s.cfgPath()))
}

// Use sets the installation from which the next [Ensemble.Restart] starts server i. The
// ports and the data stay, as in an upgrade. Do not call it while Restart runs.
func (e *Ensemble) Use(i int, installation Installation) { e.servers[i].installation = &installation }

// SetProperty sets a system property of the virtual machines that start after the call,
// as [Property] does for the first ones.
func (e *Ensemble) SetProperty(key, value string) { e.config.properties[key] = value }

// Ended returns an error with the end of server i's log if its process has ended by
// itself. It returns nil while the process runs, and after Kill.
func (e *Ensemble) Ended(i int) error {
	_, err := e.servers[i].active()
	return err
}

// Wait returns nil as soon as all servers serve, except killed and stopped ones. It
// returns an error if ctx ends first, or if one of them ends by itself.
func (e *Ensemble) Wait(ctx context.Context) error {
	return e.wait(ctx, func(*server) error { return nil })
}

// wait is Wait, and also fails if hopeless returns an error for any server.
func (e *Ensemble) wait(ctx context.Context, hopeless func(*server) error) error {
	for _, s := range e.servers {
		err := poll(ctx, func() (bool, error) {
			if active, err := s.active(); err != nil || !active {
				return true, err
			}
			for _, other := range e.servers { // another server may keep this one waiting
				if err := hopeless(other); err != nil {
					return false, err
				}
			}
			now, err := e.status(ctx, s.index)
			return err == nil && now.serves(), nil
		})
		if err != nil {
			return fmt.Errorf("ensemble: waiting for server %d: %w", s.index, err)
		}
	}
	return nil
}

// Leader waits until one of the servers reports that it leads, and returns its number. A
// standalone server is its own leader. After Cont, a former leader and the new one may
// both claim to lead for a moment. Then Leader returns the one with the later epoch.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	leader := -1
	err := poll(ctx, func() (bool, error) {
		epoch := int64(-1)
		for i, s := range e.servers {
			active, err := s.active()
			if err != nil {
				return false, err
			}
			if !active {
				continue
			}
			// A server that does not answer is not up, and does not lead.
			if now, err := e.status(ctx, i); err == nil && now.leads() && now.epoch > epoch {
				leader, epoch = i, now.epoch
			}
		}
		return leader >= 0, nil
	})
	if err != nil {
		return -1, fmt.Errorf("ensemble: waiting for a leader: %w", err)
	}
	return leader, nil
}

// Followers waits like Leader, and returns the numbers of the other servers that serve,
// including observers.
func (e *Ensemble) Followers(ctx context.Context) ([]int, error) {
	leader, err := e.Leader(ctx)
	if err != nil {
		return nil, err
	}
	var followers []int
	for i := range e.servers {
		if now, err := e.status(ctx, i); err == nil && now.serves() && i != leader {
			followers = append(followers, i)
		}
	}
	return slices.Clip(followers), nil
}

// Version returns the version that server i reports, such as 3.8.0.
func (e *Ensemble) Version(ctx context.Context, i int) (string, error) {
	now, err := e.status(ctx, i)
	return now.version, err
}

// Counters returns the numbers of server i's answer to mntr, by name, such as
// zk_packets_received or zk_watch_count.
func (e *Ensemble) Counters(ctx context.Context, i int) (map[string]float64, error) {
	answer, err := Ask(ctx, e.Addr(i), "mntr")
	if err != nil {
		return nil, err
	}
	return parseCounters(answer), nil
}

func (e *Ensemble) status(ctx context.Context, i int) (status, error) {
	answer, err := Ask(ctx, e.Addr(i), "srvr")
	if err != nil {
		return status{}, err
	}
	return parseStatus(answer), nil
}

// poll calls done until it returns true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
