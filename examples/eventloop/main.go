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
	p := program.New("eventloop", stderr)
	var opt options
	p.Flags.IntVar(&opt.locks, "locks", 500, "how many locks")
	p.Flags.DurationVar(&opt.hold, "hold", 500*time.Millisecond, "how long each is held")
	info, err := stdout.Stat()
	opt.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0

	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		opt.zk = zk
		return run(ctx, stdout, opt)
	})
}
