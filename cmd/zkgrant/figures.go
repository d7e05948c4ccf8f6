//go:build unix

package main

import (
	"errors"
	"time"
)

// writeFigures writes what became of an attempt that has ended with the error. A folder that
// does not answer, as on a network, holds the caller up for a short time only.
func (w *wanted) writeFigures(end error) {
	if w.file == "" {
		return
	}
	run := w.last
	run.Ended, run.Code = time.Now(), codeOf(end)
	written := make(chan error, 1)
	go func() { written <- run.Write(w.file) }()
	const most = 2 * time.Second
	late := time.NewTimer(most)
	defer late.Stop()
	var err error
	select {
	case err = <-written:
	case <-late.C:
		err = errors.New("the folder has not answered for " + most.String())
	}
	if err != nil {
		w.say(report{Event: "failed", Error: err.Error(), loud: true}, "--textfile %s: %v", w.file, err)
	}
}
