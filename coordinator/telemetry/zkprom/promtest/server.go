package promtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	between  = 50 * time.Millisecond // it does not tell when it is ready
	attempts = 3                     // another program may take the port first
)

// Config says what a server does.
type Config struct {
	Interval time.Duration       // between scrapes, and between evaluations of the rules
	Rules    string              // a file of rules; empty for none
	Targets  map[string][]string // host:port, by job
}

// Server is a running Prometheus.
type Server struct {
	Addr string // host:port

	cmd   *exec.Cmd
	said  *tail
	ended chan struct{}
}

// Start runs a server with everything it writes below folder, and returns when it serves. The caller must Close it.
func Start(ctx context.Context, installation Installation, folder string, cfg Config) (*Server, error) {
	if err := os.WriteFile(filepath.Join(folder, "prometheus.yml"), []byte(cfg.text()), 0o600); err != nil {
		return nil, err
	}
	var err error
	for range attempts {
		var s *Server
		if s, err = start(ctx, installation, folder); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("promtest: prometheus: %w", err)
}

func (c Config) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "global: {scrape_interval: %[1]dms, scrape_timeout: %[1]dms, evaluation_interval: %[1]dms}\n", c.Interval.Milliseconds())
	if c.Rules != "" {
		fmt.Fprintf(&text, "rule_files: [%q]\n", c.Rules)
	}
	text.WriteString("scrape_configs:\n")
	for job, targets := range c.Targets {
		fmt.Fprintf(&text, "  - {job_name: %q, static_configs: [{targets: [%q]}]}\n", job, strings.Join(targets, `","`))
	}
	return strings.ReplaceAll(text.String(), `\"`, `"`)
}

func start(ctx context.Context, installation Installation, folder string) (*Server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: l.Addr().String(), said: &tail{}, ended: make(chan struct{})}
	if err := l.Close(); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(installation.Prometheus, "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+s.Addr, "--log.level=warn")
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		// Close kills it, and an earlier failure shows when it does not answer.
		_ = s.cmd.Wait()
	}()
	for {
		if _, err := s.get(ctx, "/-/ready"); err == nil {
			return s, nil
		}
		select {
		case <-s.ended:
			return nil, fmt.Errorf("it ended by itself\n%s", s.said)
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), s.Close())
		case <-time.After(between):
		}
	}
}

// Close ends the server, and returns when its process is gone.
func (s *Server) Close() error {
	err := s.cmd.Process.Kill()
	<-s.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// get asks the server.
func (s *Server) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+path, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // no connection is left behind
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("promtest: %s: %s: %s", path, answer.Status, body.String())
	}
	return body.Bytes(), nil
}

// tail keeps the last output of a process.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
