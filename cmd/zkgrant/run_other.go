//go:build !unix

package main

import "github.com/spf13/cobra"

// holdingCommands returns nothing: this system has neither process groups nor signals to
// pass on.
func holdingCommands(*settings) []*cobra.Command { return nil }

// superviseIfAsked does nothing: there is no command to supervise.
func superviseIfAsked() {}

type orphans struct{}

// manager is nothing: this system has no sd_notify.
type manager struct{}
