package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout *os.File, stderr io.Writer) int {
	p := program.New("quickstart", stderr)
	var opt options
	p.Flags.DurationVar(&opt.hold, "hold", 600*time.Millisecond, "how long each contender works under the lock")
	opt.colours = colourful(stdout)

	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		opt.zk = zk
		return run(ctx, stdout, opt)
	})
}
