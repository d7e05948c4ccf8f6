//go:build !unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// holdingCommands returns nothing, because this system has neither process groups nor
// signals to forward.
func holdingCommands(*settings) []*cobra.Command { return nil }

// superviseIfAsked does nothing, because there is no command to supervise.
func superviseIfAsked() {}

// catch is signal.Notify, because no signal is ignored when a process starts here.
func catch(to chan<- os.Signal, signals ...syscall.Signal) {
	for _, sig := range signals {
		signal.Notify(to, sig)
	}
}

// dieOfInterrupt does nothing, because a process cannot send itself a signal here.
func dieOfInterrupt() {}

type orphans struct{}

// manager is empty, because this system has no sd_notify.
type manager struct{}
