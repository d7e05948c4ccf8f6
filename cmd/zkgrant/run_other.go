//go:build !unix

package main

import "github.com/spf13/cobra"

// holdingCommands returns nothing, because this system has neither process groups nor
// signals to forward.
func holdingCommands(*settings) []*cobra.Command { return nil }

// superviseIfAsked does nothing, because there is no command to supervise.
func superviseIfAsked() {}

type orphans struct{}

// manager is empty, because this system has no sd_notify.
type manager struct{}
