package main

import (
	"io"
	"sync"
	"time"
)

// printer writes lines to a file that may block or be gone: a full pipe, a terminal after
// ^S, a reader that has exited. Only flush waits. A line that fails or does not fit into
// the queue is dropped and counted, and the next line is preceded by the count.
type printer struct {
	to      io.Writer
	dropped func(lines int) string // formats the count

	mu    sync.Mutex
	queue []printed
	show  string        // the progress to show once the queue is empty; "" for none
	shown string        // the progress that is on the terminal now
	lost  int           // the lines dropped since the last count
	busy  chan struct{} // closed when the writing goroutine ends; nil if there is none
}

// printed is a line, and how many lines are lost if it cannot be written.
type printed struct {
	text  string
	lines int
}

// room is how many lines may be queued.
const room = 256

// line queues a line.
func (p *printer) line(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) >= room {
		p.lost++
		return
	}
	if p.lost > 0 {
		p.queue = append(p.queue, printed{p.dropped(p.lost), p.lost})
		p.lost = 0
	}
	p.queue = append(p.queue, printed{line, 1})
	p.start()
}

// progress shows a line that the next one replaces. An empty line removes it.
func (p *printer) progress(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.show = line; p.show != p.shown {
		p.start()
	}
}

// start makes sure that a goroutine is writing. The goroutine ends when nothing is left.
func (p *printer) start() {
	if p.busy == nil {
		p.busy = make(chan struct{})
		go p.write()
	}
}

func (p *printer) write() {
	for {
		text, lines := p.next()
		if text == "" {
			return
		}
		if _, err := io.WriteString(p.to, text); err != nil {
			p.fail(lines)
		}
	}
}

// next returns what to write next, and how many lines that is. If text is empty, the
// goroutine ends.
func (p *printer) next() (text string, lines int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != "" && (len(p.queue) > 0 || p.show != p.shown) {
		text, p.shown = erase, ""
	}
	switch {
	case len(p.queue) > 0:
		text, lines = text+p.queue[0].text+"\n", p.queue[0].lines
		p.queue = p.queue[1:]
	case p.show != p.shown:
		text, p.shown = erase+p.show, p.show
	case text == "":
		close(p.busy)
		p.busy = nil
	}
	return text, lines
}

func (p *printer) fail(lines int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost += lines
}

// flush waits until everything is written, or for most.
func (p *printer) flush(most time.Duration) {
	p.mu.Lock()
	busy := p.busy
	p.mu.Unlock()
	if busy == nil {
		return
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-busy:
	case <-late.C:
	}
}
