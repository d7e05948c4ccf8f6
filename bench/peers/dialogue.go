package peers

import (
	"context"
	"fmt"
	"os/exec"
)

// Dialogue is a process that answers each line of input with one line.
type Dialogue struct {
	*Process

	answers chan string
}

// StartDialogue starts the process, as [Start] does.
func StartDialogue(cmd *exec.Cmd) (*Dialogue, error) {
	d := &Dialogue{answers: make(chan string, 1)}
	p, err := Start(cmd, func(line Line) { d.answers <- line.Text })
	if err != nil {
		return nil, err
	}
	d.Process = p
	return d, nil
}

// Ask sends a line and waits for the answer. It must not be called concurrently or after
// an error.
func (d *Dialogue) Ask(ctx context.Context, line string) (string, error) {
	if err := d.Say(line); err != nil {
		return "", err
	}
	select {
	case answer := <-d.answers:
		return answer, nil
	case <-d.Ended():
		return "", fmt.Errorf("peers: the process has ended, asked %q\n%s", line, d.Complaints())
	case <-ctx.Done():
		return "", fmt.Errorf("peers: asked %q: %w", line, context.Cause(ctx))
	}
}
