package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Etcd is a running etcd server, alone or with others.
type Etcd struct {
	Addr    string // host:port, for clients
	Version string // such as 3.4.23

	program string
	cmd     *exec.Cmd     // nil before the start
	said    tail          // the end of its error output
	ended   chan struct{} // closed when the process has ended
	folder  string
}

// FindEtcd returns the program named by ETCD, the one on PATH, or the one in .deps of the
// working directory's project. If there is none, the error wraps [ErrNotFound].
func FindEtcd() (string, error) {
	if program := os.Getenv("ETCD"); program != "" {
		return program, nil
	}
	if program, err := exec.LookPath("etcd"); err == nil {
		return program, nil
	}
	deps, err := ensemble.Deps()
	if err != nil {
		return "", err
	}
	if program := filepath.Join(deps, "etcd", "etcd"); deps != "" && isFile(program) {
		return program, nil
	}
	return "", fmt.Errorf("%w, or set ETCD to the etcd program", ErrNotFound)
}

// StartEtcd starts a server with its own data folder below parent, and returns once it
// serves. The caller must Close it.
func StartEtcd(ctx context.Context, parent string) (*Etcd, error) {
	peer, err := freeAddr()
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	e, err := newEtcd(ctx, parent)
	if err != nil {
		return nil, err
	}
	if err = e.start(member{name: "one", peer: peer, known: peer, all: "one=http://" + peer}); err == nil {
		err = e.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("peers: etcd: %w", err), e.Close())
	}
	return e, nil
}

func newEtcd(ctx context.Context, parent string) (*Etcd, error) {
	program, err := FindEtcd()
	if err != nil {
		return nil, err
	}
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("peers: %s --version: %w", program, err)
	}
	e := &Etcd{program: program, Version: "?"}
	if found := regexp.MustCompile(`etcd Version: (\S+)`).FindSubmatch(said); found != nil {
		e.Version = string(found[1])
	}
	if e.Addr, err = freeAddr(); err == nil {
		e.folder, err = os.MkdirTemp(parent, "zkgrant-etcd")
	}
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return e, nil
}

// member has the addresses by which the members of a cluster find each other.
type member struct {
	name  string
	peer  string // host:port where it listens for the others
	known string // where the others look for it
	all   string // all members' name and known, in etcd's format
}

func (e *Etcd) start(m member) error {
	cmd := exec.Command(e.program, "--name", m.name, "--data-dir", filepath.Join(e.folder, "data"),
		"--listen-client-urls", "http://"+e.Addr, "--advertise-client-urls", "http://"+e.Addr,
		"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.known,
		"--initial-cluster", m.all, "--log-level", "error", "--quota-backend-bytes", "4294967296")
	cmd.Stdout, cmd.Stderr = &e.said, &e.said
	ensemble.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	e.cmd, e.ended = cmd, make(chan struct{})
	go func() {
		defer close(e.ended)
		// The process is killed in the end, so its status is meaningless.
		_ = cmd.Wait()
	}()
	return nil
}

func (e *Etcd) ready(ctx context.Context) error {
	for {
		// A server without a leader answers, too.
		if c, err := e.Counters(ctx); err == nil && c["etcd_server_has_leader"] == 1 {
			return nil
		}
		select {
		case <-e.ended:
			return fmt.Errorf("it ended by itself\n%s", e.said.String())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond): // it does not report that it is ready
		}
	}
}

// freeAddr returns a local address that was free a moment ago.
func freeAddr() (string, error) {
	port, err := ensemble.FreePort()
	return fmt.Sprint("127.0.0.1:", port), err
}

// Counters returns the server's metrics by name. Metrics that differ only in their labels
// are added up.
func (e *Etcd) Counters(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Addr+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	request.Close = true // leave no connection open
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("peers: etcd's metrics: %w", err)
	}
	defer answer.Body.Close()
	counters := make(map[string]float64)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if name, value, ok := parseMetric(lines.Text()); ok {
			counters[name] += value
		}
	}
	return counters, lines.Err()
}

// parseMetric parses a line in Prometheus' format: a name, optional labels in braces, and
// a number.
func parseMetric(line string) (name string, value float64, ok bool) {
	if strings.HasPrefix(line, "#") {
		return "", 0, false
	}
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[at+1:], 64)
	name, _, _ = strings.Cut(line[:at], "{")
	return name, value, err == nil && name != ""
}

// Close ends the server and removes what it wrote.
func (e *Etcd) Close() error {
	var killed error
	if e.cmd != nil {
		if killed = e.cmd.Process.Kill(); errors.Is(killed, os.ErrProcessDone) {
			killed = nil
		}
		<-e.ended
	}
	return errors.Join(killed, os.RemoveAll(e.folder))
}

// ProcessorTime returns the server's CPU time so far; see [Server.ProcessorTime].
func (e *Etcd) ProcessorTime() (time.Duration, error) { return ProcessorTime(e.cmd.Process.Pid) }
