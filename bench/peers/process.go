package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a process may take to exit once its input has ended.
	patience = 3 * time.Minute
	// tailSize is how much of a process's error output is kept, in bytes.
	tailSize = 4 << 10
	// longest is how long a line may be, in bytes.
	longest = 16 << 20
)

// Line is a line printed by a process.
type Line struct {
	At   time.Time // when it arrived, with a monotonic clock reading
	Text string    // without the newline
}

// Process is another program that prints what happens to it. Its methods are safe for
// concurrent use.
type Process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	said  tail
	ended chan struct{} // closed once the process has exited and all its lines were handled
	err   error         // the exit error; set before ended is closed

	patience time.Duration
	close    sync.Once
	killed   atomic.Bool
}

// Start starts the command, whose three standard streams must not be set. One goroutine
// calls heard with each line of its output, in order. If heard blocks for too long, so
// does the process. The process should exit when its standard input ends. The caller must
// Close it.
func Start(cmd *exec.Cmd, heard func(Line)) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{}), patience: patience}
	cmd.Stderr = &p.said
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("peers: starting %s: %w", cmd.Path, err)
	}
	p.input = input
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("peers: starting %s: %w", cmd.Path, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("peers: starting %s: %w", cmd.Path, err)
	}
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(output)
		lines.Buffer(nil, longest)
		for lines.Scan() {
			heard(Line{At: time.Now(), Text: lines.Text()})
		}
		// Read the output to its end before Wait, which closes it.
		p.err = errors.Join(lines.Err(), cmd.Wait())
	}()
	return p, nil
}

// Ended returns a channel that is closed once the process has exited and all its output
// was handled.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Say writes a line to the process's standard input.
func (p *Process) Say(line string) error {
	if _, err := io.WriteString(p.input, line+"\n"); err != nil {
		return fmt.Errorf("peers: telling %s: %w\n%s", p.cmd.Path, err, p.Complaints())
	}
	return nil
}

// Complaints returns the end of the process's standard error.
func (p *Process) Complaints() string { return p.said.String() }

// Kill kills the process (SIGKILL), as a crash would, and returns once it has exited.
// Close does not report that as an error. If the process has already exited, Kill does
// nothing.
func (p *Process) Kill() error {
	p.killed.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("peers: killing %s: %w", p.cmd.Path, err)
	}
	<-p.ended
	return nil
}

// Close closes the process's input and waits until it exits. If that takes too long,
// Close kills the process and returns an error, as it does for an exit status other than
// 0. Close may be called more than once.
func (p *Process) Close() error {
	var killed error
	p.close.Do(func() {
		// Ignore the error: the pipe is broken if the process has exited, whose status is
		// checked below.
		_ = p.input.Close()
		overdue := time.NewTimer(p.patience)
		defer overdue.Stop()
		select {
		case <-p.ended:
		case <-overdue.C:
			killed = errors.Join(fmt.Errorf("it did not end within %v of its input", p.patience), p.cmd.Process.Kill())
		}
	})
	<-p.ended
	if p.killed.Load() {
		return nil
	}
	if err := errors.Join(killed, p.err); err != nil {
		return fmt.Errorf("peers: %s: %w\n%s", p.cmd.Path, err, p.Complaints())
	}
	return nil
}

// tail is a writer that keeps only the last bytes.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps the last bytes.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// String returns the kept bytes.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// ProcessorTime returns the process's CPU time so far; see [Server.ProcessorTime].
func (p *Process) ProcessorTime() (time.Duration, error) { return ProcessorTime(p.cmd.Process.Pid) }

// Memory returns the process's memory in bytes; see [Memory].
func (p *Process) Memory() (int64, error) { return Memory(p.cmd.Process.Pid) }

// Pause waits for d, unless ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Together calls f concurrently with each number below n, and returns once all calls have
// returned.
func Together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}
