package peers

import (
	"bufio"
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
	// patience is how long a process may take to end once its input has ended.
	patience = 3 * time.Minute
	// tailSize is how much of a process's error output is kept, in bytes.
	tailSize = 4 << 10
	// longest is how long a line may be, in bytes.
	longest = 16 << 20
)

// Line is a line that a process printed.
type Line struct {
	At   time.Time // when it arrived, with a monotonic clock reading
	Text string    // without its end
}

// Process is a program that runs beside this one and prints what happens to it. Several
// goroutines may call its methods.
type Process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	said  tail
	ended chan struct{} // closed when the process has ended and all its lines were heard
	err   error         // the process's end; set before ended is closed

	patience time.Duration
	close    sync.Once
	killed   atomic.Bool
}

// Start starts the command, whose three standard streams must be free. Each line of its
// output goes to heard, in order, from one goroutine. If heard blocks, it holds up the
// process in the end. The caller must Close the process, which ends by itself when its
// standard input does.
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
		// The output must be read to its end before Wait, which closes it.
		p.err = errors.Join(lines.Err(), cmd.Wait())
	}()
	return p, nil
}

// Ended is closed when the process has ended and all its output was heard.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Say writes a line to the process's standard input.
func (p *Process) Say(line string) error {
	if _, err := io.WriteString(p.input, line+"\n"); err != nil {
		return fmt.Errorf("peers: telling %s: %w\n%s", p.cmd.Path, err, p.Complaints())
	}
	return nil
}

// Complaints is the end of the process's standard error.
func (p *Process) Complaints() string { return p.said.String() }

// Kill ends the process at once, as a crash would (SIGKILL), and returns when it has
// ended. Close then takes that for no error. If the process has ended already, Kill does
// nothing.
func (p *Process) Kill() error {
	p.killed.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("peers: killing %s: %w", p.cmd.Path, err)
	}
	<-p.ended
	return nil
}

// Close ends the process's input and waits for its end. If that takes too long, Close
// kills the process, which is an error, as is an exit status other than 0. Close may be
// called more than once.
func (p *Process) Close() error {
	var killed error
	p.close.Do(func() {
		// A process that has ended has closed the pipe. Its exit status says whether
		// there was an error.
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

// tail is a writer that keeps the last bytes only.
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

// ProcessorTime is the process's processor time so far; see [Server.ProcessorTime].
func (p *Process) ProcessorTime() (time.Duration, error) { return ProcessorTime(p.cmd.Process.Pid) }

// Memory is the process's memory in bytes; see [Memory].
func (p *Process) Memory() (int64, error) { return Memory(p.cmd.Process.Pid) }

// Together calls f with each number below n, at once, and returns when all have returned.
func Together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}
