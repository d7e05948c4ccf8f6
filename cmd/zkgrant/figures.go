//go:build unix

package main

import (
	"errors"
	"time"
)

// toWrite bounds how long writing the text file may delay the caller.
const toWrite = 2 * time.Second

// errSilent means that the folder does not answer, as on a network file system.
var errSilent = errors.New("the folder has not answered for " + toWrite.String())

// writeFigures writes the outcome of an attempt, which ended with the error end.
func (w *wanted) writeFigures(end error) {
	if w.file == "" {
		return
	}
	run := w.last
	run.Ended, run.Code = time.Now(), codeOf(end)
	if err := within(toWrite, func() error { return run.Write(w.file) }); err != nil {
		w.say(report{Event: "failed", Error: err.Error(), loud: true}, "--textfile %s: %v", w.file, err)
	}
}

// within returns the result of do, or errSilent if that takes longer than most. In that
// case do keeps running.
func within(most time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return errSilent
	}
}
