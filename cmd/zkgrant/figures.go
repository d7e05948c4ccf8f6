//go:build unix

package main

import (
	"errors"
	"time"
)

// toWrite is the longest time that the file of the figures may hold the caller up.
const toWrite = 2 * time.Second

// errSilent is the error of a folder that does not answer, as on a network.
var errSilent = errors.New("the folder has not answered for " + toWrite.String())

// writeFigures writes the outcome of an attempt that has ended with the error.
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

// within returns what do returns, or errSilent if that takes too long. do continues then.
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
