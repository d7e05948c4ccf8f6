package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/text"
	"github.com/zkgrant/zkgrant/coordinator"
)

// The model's messages, other than the terminal's size and the keys.
type (
	looked struct { // a walk has ended
		locks []row
		err   error
		at    time.Time

		searching int // nodes seen by the first search of the tree so far; 0 once it is over
	}
	due  struct{} // it is time for the next walk
	beat struct { // a second has passed
		at    time.Time
		state coordinator.State
	}
	revoked struct { // a revocation has ended
		path string
		err  error
	}
	said string // the library's log
)

// effect is something that the model wants done.
type effect interface{ effect() }

type (
	look struct{} // a walk, answered by looked
	rest struct{} // the interval between walks, ended by due
	wait struct{} // a second, ended by beat
	ask  struct { // a revocation, answered by revoked
		path string
	}
	quit struct{}
)

func (look) effect() {}
func (rest) effect() {}
func (wait) effect() {}
func (ask) effect()  {}
func (quit) effect() {}

// mode is the meaning of the keys.
type mode uint8

const (
	browsing   mode = iota
	filtering       // they edit the filter
	confirming      // y means yes
)

// model is the state of the view. It is a value: update returns the next one.
type model struct {
	Options

	width, height int
	now           time.Time
	state         coordinator.State

	locks  []row // of the last walk, in its order
	at     time.Time
	nodes  int                  // as in looked
	waited map[string]time.Time // when each node was last seen waiting
	err    error                // ends the program

	rows     []row // the rows to show: filtered and sorted
	order    order
	filter   string
	cursor   int // the index of the selected row
	offset   int // the index of the first row on the screen
	selected id

	mode     mode
	target   row      // the row that the question is about
	revoking []string // the paths that are being revoked
	status   string
	bad      bool
}

// begin returns the first model and its effects.
func begin(o Options, now time.Time) (model, []effect) {
	return model{Options: o, now: now, state: coordinator.StateConnected}, []effect{look{}, wait{}}
}

// update returns the next model and its effects.
func (m model) update(msg tea.Msg) (model, []effect) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m.settled(), nil
	case tea.KeyPressMsg:
		return m.pressed(msg.String(), msg.Text)
	case tea.PasteMsg:
		if m.mode == filtering {
			m.filter += text.Printable(strings.TrimSpace(msg.Content))
		}
		return m.settled(), nil
	case looked:
		return m.looked(msg)
	case due:
		return m, []effect{look{}}
	case beat:
		m.now, m.state = msg.at, msg.state
		return m, []effect{wait{}}
	case revoked:
		return m.revoked(msg), nil
	case said:
		m.status, m.bad = string(msg), true
	}
	return m, nil
}

func (m model) looked(l looked) (model, []effect) {
	if l.err != nil {
		m.err = l.err
		return m, []effect{quit{}}
	}
	m.locks, m.at, m.now, m.nodes = nil, l.at, l.at, l.searching
	for _, r := range l.locks {
		m.locks = append(m.locks, rowOf(r.LockInfo, r.err, m.waited))
	}
	m.waited = remember(m.waited, m.locks, l.at)
	return m.settled(), []effect{rest{}}
}

func (m model) revoked(r revoked) model {
	m.revoking = slices.DeleteFunc(slices.Clone(m.revoking), func(path string) bool { return path == r.path })
	switch {
	case r.err == nil:
		m.status, m.bad = "all holders that were asked have released or lost "+r.path, false
	case errors.Is(r.err, coordinator.ErrNotHeld):
		m.status, m.bad = r.path+" is not held", false
	default:
		m.status, m.bad = strings.ReplaceAll(r.err.Error(), "zkgrant: ", ""), true
	}
	return m
}

// settled rebuilds the rows. It keeps the selection, and keeps it on the screen.
func (m model) settled() model {
	m.rows = nil
	for _, r := range m.locks {
		if r.matches(m.filter) {
			m.rows = append(m.rows, r)
		}
	}
	m.order.sorted(m.rows)
	if i := slices.IndexFunc(m.rows, func(r row) bool { return r.id() == m.selected }); i >= 0 {
		m.cursor = i
	}
	return m.selecting(m.cursor)
}

// selecting selects the row with the index, or the nearest one.
func (m model) selecting(index int) model {
	m.cursor = max(0, min(index, len(m.rows)-1))
	if len(m.rows) > 0 {
		m.selected = m.rows[m.cursor].id()
	}
	room := m.layout().rows
	m.offset = max(0, min(m.offset, m.cursor, len(m.rows)-room))
	if m.cursor >= m.offset+room {
		m.offset = m.cursor - room + 1
	}
	return m
}

// pressed handles a key. typed is its text, or empty.
func (m model) pressed(key, typed string) (model, []effect) {
	if key == "ctrl+c" {
		return m, []effect{quit{}}
	}
	switch m.mode {
	case filtering:
		return m.filtering(key, typed), nil
	case confirming:
		return m.confirming(key)
	case browsing:
	}
	switch key {
	case "q":
		return m, []effect{quit{}}
	case "up", "k":
		return m.selecting(m.cursor - 1), nil
	case "down", "j":
		return m.selecting(m.cursor + 1), nil
	case "pgup":
		return m.selecting(m.cursor - m.layout().rows), nil
	case "pgdown":
		return m.selecting(m.cursor + m.layout().rows), nil
	case "home", "g":
		return m.selecting(0), nil
	case "end", "G":
		return m.selecting(len(m.rows) - 1), nil
	case "w":
		return m.sortedBy(byWait), nil
	case "h":
		return m.sortedBy(byHold), nil
	case "n":
		return m.sortedBy(byQueue), nil
	case "p":
		return m.sortedBy(byPath), nil
	case "/":
		m.mode = filtering
		return m, nil
	case "esc":
		m.status, m.bad, m.filter = "", false, ""
		return m.settled(), nil
	case "r":
		return m.asking(), nil
	}
	return m, nil
}

func (m model) sortedBy(o order) model {
	m.order = o
	return m.settled()
}

func (m model) filtering(key, typed string) model {
	switch key {
	case "enter":
		m.mode = browsing
	case "esc":
		m.mode, m.filter = browsing, ""
	case "backspace":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	default:
		m.filter += typed
	}
	return m.settled()
}

// asking opens the question whether to revoke the selected lock.
func (m model) asking() model {
	if len(m.rows) == 0 {
		return m
	}
	target := m.rows[m.cursor]
	m.bad = false
	switch {
	case slices.Contains(m.revoking, target.Path):
		m.status = target.Path + " is already being revoked"
	case target.err != nil:
		m.status, m.bad = target.Path+" cannot be read", true
	case target.holders == 0:
		m.status = target.Path + " is not held"
	default:
		m.mode, m.target, m.status = confirming, target, ""
	}
	return m
}

func (m model) confirming(key string) (model, []effect) {
	m.mode = browsing
	path := m.target.Path
	if key != "y" && key != "Y" {
		m.status, m.bad = path+" was not revoked", false
		return m, nil
	}
	m.revoking = append(slices.Clone(m.revoking), path)
	m.status, m.bad = fmt.Sprintf("revoking %s, with a grace of %v", path, m.Grace), false
	return m, []effect{ask{path}}
}
