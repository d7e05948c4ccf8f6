package main

import (
	"context"
	"fmt"
	"sync"
)

// board is where the tasks are written down, and what was done. It stands for a table
// in a database that all workers use, with a column for the fencing token (see
// ../fencedwriter), and counts for the show.
type board struct {
	mu    sync.Mutex
	tasks []task
	left  int
	over  chan struct{} // closed when nothing is left
}

type task struct {
	begun int
	token int64 // of whoever began it last
	done  bool
	told  bool // somebody has said that it waits
}

func newBoard(tasks int) *board {
	return &board{tasks: make([]task, tasks), left: tasks, over: make(chan struct{})}
}

// open returns the numbers of the tasks that are not done.
func (b *board) open() (open []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for number, t := range b.tasks {
		if !t.done {
			open = append(open, number)
		}
	}
	return open
}

// begin notes that a task is begun, under the claim with the token. It returns how
// often it was, or 0 if it is done already.
func (b *board) begin(number int, token int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.tasks[number]
	if t.done {
		return 0
	}
	t.begun++
	t.token = max(t.token, token)
	return t.begun
}

// finish notes that a task is done, unless somebody with a later claim has begun it,
// too: then it is his. It is an error if it was done already.
func (b *board) finish(number int, token int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.tasks[number]
	switch {
	case t.done:
		return fmt.Errorf("task %d is done a second time", number)
	case token < t.token:
		return nil
	}
	t.done = true
	if b.left--; b.left == 0 {
		close(b.over)
	}
	return nil
}

// late tells, once for each task, that it is among the last that somebody is at.
func (b *board) late(number int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.tasks[number]
	if b.left > 1 || t.told {
		return false
	}
	t.told = true
	return true
}

// wait returns when all is done, or with the cause of ctx.
func (b *board) wait(ctx context.Context) error {
	select {
	case <-b.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// counts returns how many tasks were begun and done, and which were begun again.
func (b *board) counts() (begun, done int, again []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for number, t := range b.tasks {
		begun += t.begun
		if t.done {
			done++
		}
		if t.begun > 1 {
			again = append(again, number)
		}
	}
	return begun, done, again
}
