// Package top is the live view of locks. The model is a value that turns messages into
// effects (model.go). view.go draws it. This file runs it on a terminal and carries out
// the effects.
package top

import (
	"context"
	"errors"
	"iter"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Options are the user's choices.
type Options struct {
	Root     string
	Interval time.Duration // between two walks
	Grace    time.Duration // of a revocation
	Colors   bool
	Divert   func(say func(line string)) // redirects the lines for the terminal to say; nil ends that
}

// Run shows the locks until the user quits or ctx ends.
func Run(ctx context.Context, c *coordinator.Coordinator, o Options) error {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	first, effects := begin(o, time.Now())
	options := []tea.ProgramOption{tea.WithoutSignalHandler()}
	if !o.Colors {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	p := tea.NewProgram(screen{first, &hands{working, c, c.Poll(o.Root), o}, effects}, options...)
	defer context.AfterFunc(ctx, p.Quit)()
	o.Divert(func(line string) { p.Send(said(line)) })
	defer o.Divert(nil)
	last, err := p.Run()
	if s, ok := last.(screen); ok {
		err = errors.Join(err, s.err)
	}
	return err
}

// screen adapts the model to the terminal library.
type screen struct {
	model
	hands *hands
	first []effect
}

// Init is called first.
func (s screen) Init() tea.Cmd { return s.hands.do(s.first) }

// Update is called with each message.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var effects []effect
	s.model, effects = s.update(msg)
	return s, s.hands.do(effects)
}

// View is called to draw.
func (s screen) View() tea.View {
	v := tea.NewView(s.view())
	v.AltScreen = true
	return v
}

// hands carry effects out.
type hands struct {
	ctx  context.Context // ends with the program
	c    *coordinator.Coordinator
	walk func(context.Context) iter.Seq2[events.LockInfo, error]
	Options
}

func (h *hands) do(effects []effect) tea.Cmd {
	var all []tea.Cmd
	for _, e := range effects {
		switch e := e.(type) {
		case look:
			all = append(all, h.look)
		case rest:
			all = append(all, tea.Tick(h.Interval, func(time.Time) tea.Msg { return due{} }))
		case wait:
			all = append(all, tea.Tick(time.Second, func(at time.Time) tea.Msg { return beat{at, h.c.State()} }))
		case ask:
			all = append(all, func() tea.Msg { return revoked{e.path, h.c.Revoke(h.ctx, e.path, h.Grace)} })
		case quit:
			all = append(all, tea.Quit)
		}
	}
	return tea.Batch(all...)
}

// look walks through the tree. One walk ends before the next one is requested.
func (h *hands) look() tea.Msg {
	var locks []row
	searching := 0
	ctx := session.WithProgress(h.ctx, func(p session.Progress) {
		if searching = p.Nodes; p.Whole {
			searching = 0
		}
	})
	for lock, err := range h.walk(ctx) {
		if h.ctx.Err() != nil { // the program is about to end, and ignores messages
			return nil
		}
		if errors.Is(err, coordinator.ErrInvalid) {
			return looked{err: err}
		}
		locks = append(locks, row{LockInfo: lock, err: err})
	}
	return looked{locks: locks, at: time.Now(), searching: searching}
}
