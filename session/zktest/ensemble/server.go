package ensemble

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// server is one server of an ensemble. It outlives its process: after a kill and a
// restart, it has the same number, ports and data.
type server struct {
	index  int
	folder string // zoo.cfg, the log and the data
	host   string // for clients
	ports  ports

	installation *Installation // nil for the ensemble's

	mu      sync.Mutex
	process *process // nil while it should not run: before the start, after Kill
	stopped bool     // Stop has halted the process
}

// process is a virtual machine, running or ended.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and err is set
	err  error
}

func (s *server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// id is the server's number in zoo.cfg, which must not be 0.
func (s *server) id() int         { return s.index + 1 }
func (s *server) addr() string    { return net.JoinHostPort(s.host, strconv.Itoa(s.ports.client)) }
func (s *server) dataDir() string { return filepath.Join(s.folder, "data") }
func (s *server) cfgPath() string { return filepath.Join(s.folder, "zoo.cfg") }
func (s *server) logPath() string { return filepath.Join(s.folder, "server.log") }

// prepare writes the files that the process reads.
func (s *server) prepare(cfg string) error {
	err := errors.Join(
		os.MkdirAll(s.dataDir(), 0o700),
		os.WriteFile(filepath.Join(s.dataDir(), "myid"), []byte(strconv.Itoa(s.id())+"\n"), 0o600),
		os.WriteFile(s.cfgPath(), []byte(cfg), 0o600))
	if err != nil {
		return fmt.Errorf("ensemble: server %d: %w", s.index, err)
	}
	return nil
}

// start runs a new process. It returns before the process serves.
func (s *server) start(java string, args []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return fmt.Errorf("ensemble: server %d: already started", s.index)
	}
	log, err := os.OpenFile(s.logPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("ensemble: server %d: %w", s.index, err)
	}
	defer log.Close() // the process has its own descriptor
	cmd := exec.Command(java, args...)
	cmd.Dir = s.folder // where the virtual machine writes its report after a crash
	cmd.Stdout, cmd.Stderr = log, log
	DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("ensemble: server %d: %w", s.index, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	s.process, s.stopped = p, false
	return nil
}

// kill ends the process with SIGKILL, and returns when it is gone. If there is no
// process, it does nothing.
func (s *server) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	if p == nil {
		return nil
	}
	// The signal is sent through the process's handle, so it cannot hit another process
	// that got the same number after this one ended. There is no process group to kill,
	// because the virtual machine has no children. SIGKILL also ends a stopped process.
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ensemble: killing server %d: %w", s.index, err)
	}
	<-p.done
	s.process, s.stopped = nil, false
	return nil
}

// hold stops the process (true) or lets it continue (false).
func (s *server) hold(stop bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return fmt.Errorf("ensemble: server %d: not running", s.index)
	}
	if s.stopped == stop {
		return nil // there would be no change to wait for
	}
	if err := holdProcess(s.process.cmd.Process, stop); err != nil {
		return fmt.Errorf("ensemble: holding server %d: %w", s.index, err)
	}
	s.stopped = stop
	return nil
}

// active reports whether the server should be serving: it was started, and is not
// stopped. It returns an error if the process has ended by itself.
func (s *server) active() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.stopped {
		return false, nil
	}
	select {
	case <-s.process.done:
		return false, fmt.Errorf("ensemble: server %d ended by itself (%w); its last words:\n%s", s.index, s.process.err, s.tail(20))
	default:
		return true, nil
	}
}

// portTaken returns an error if the server's log says that a port was in use.
func (s *server) portTaken() error {
	log, err := os.ReadFile(s.logPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was never started
	} else if err != nil {
		return fmt.Errorf("ensemble: server %d: %w", s.index, err)
	}
	if bytes.Contains(log, []byte("java.net.BindException")) {
		return fmt.Errorf("ensemble: server %d found one of its ports (%+v) taken", s.index, s.ports)
	}
	return nil
}

// tail returns the last lines of the server's log, or why there are none.
func (s *server) tail(lines int) string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
